"""Figures for reports: where the workers or residents of an area live and work, and how far they travel."""
