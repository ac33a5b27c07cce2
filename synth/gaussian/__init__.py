"""Discrete Gaussian noise on measured tables: its numbers, its bounds, its draws."""
