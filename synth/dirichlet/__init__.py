"""Dirichlet resampling with pruning: its numbers, its bounds, its sampler."""
