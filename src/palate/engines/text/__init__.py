"""From messages to token ids, without the model."""
