"""Checks whether the pairs of a benchmark differ by their users' taste alone."""
