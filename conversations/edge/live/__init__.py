"""The live connection of a browser tab: what it follows, and what goes over it (docs/live.md)."""
