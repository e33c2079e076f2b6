"""The bottom room: imports nothing of ours."""
