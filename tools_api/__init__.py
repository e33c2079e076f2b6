"""Tools a model may call, and who may let it."""
