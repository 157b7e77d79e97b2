"""What is asked of endpoints, and how their replies are read."""
