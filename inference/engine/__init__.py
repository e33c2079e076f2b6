"""The pure engine: decides what each step computes. No Django, no Redis, no threads of its own."""
