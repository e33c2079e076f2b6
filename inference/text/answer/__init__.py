"""What a model writes, taken apart while it is written: text, reasoning and tool calls."""
