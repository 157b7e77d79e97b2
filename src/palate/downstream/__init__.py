"""What a better ranking is worth later: answers that users get, and how good they are."""
