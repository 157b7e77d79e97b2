"""palate measures whether a reward model knows whom it is judging for."""
