"""Turns: rules and table (events, machine), then what carries them out (store, runner, reaper)."""
