"""From public inputs to a public plan: reading, choosing, certifying, trying, storing. No home is read."""
