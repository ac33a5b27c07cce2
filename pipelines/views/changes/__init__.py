"""What changed between two releases, and how sure it is, from public folders alone (docs/intervals.md)."""
