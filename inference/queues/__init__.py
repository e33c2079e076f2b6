"""The meeting place of web, engine and jobs: fair bounded queues, event streams, leases.

`contract` says what every implementation promises; `redis_queue` keeps it on Redis or Valkey,
`memory` in one process. One suite (tests/contracts) holds both to it.
"""
