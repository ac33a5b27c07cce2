"""A run: the steps from a plan to a checked release, its private folder, its batches, and what it pays."""
