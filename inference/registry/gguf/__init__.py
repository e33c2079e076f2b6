"""GGUF files: what they say of themselves, read without loading them."""
