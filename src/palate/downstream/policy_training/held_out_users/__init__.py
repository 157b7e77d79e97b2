"""Users who are not trained on: what a policy answers them, and the figures of it."""
