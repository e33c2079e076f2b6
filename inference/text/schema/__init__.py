"""JSON schemas: what of one can be enforced while a model writes, and how it is handed on."""
