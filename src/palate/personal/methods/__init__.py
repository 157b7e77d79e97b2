"""One method per file, and what several of them share."""
