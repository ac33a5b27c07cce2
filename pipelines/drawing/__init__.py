"""Where homes meet randomness, and the estimate that follows from noisy counts."""
