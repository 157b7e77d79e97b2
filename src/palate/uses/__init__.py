"""The uses of a scorer that a benchmark should predict: a room each, from a plan to a table."""
