"""The engine process: intake → loop → outlet around one engine. No Django, no database, no secrets.

Three threads and plain values between them: `intake` claims and prepares requests, `loop` drives
the engine, `outlet` publishes what came of it. `heartbeat` renews leases and brings cancels.
"""
