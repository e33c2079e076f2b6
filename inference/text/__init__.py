"""Text to tokens and back, Django-free: templates, tokenising, detokenising, stop strings."""
