"""Intervals of counts and of their sums, from a public release alone (docs/intervals.md)."""
