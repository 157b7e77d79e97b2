"""What benchmarks are to foretell: answers chosen among many, and how good they are."""
