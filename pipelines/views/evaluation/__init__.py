"""Evaluation of releases: measures of utility, and reports against the truth or against public tables."""
