"""Streams that outlive their connection."""
