"""Models: which there are, which one a request means."""
