"""Everything that runs models: engines, queues, workers, the supervisor and the public APIs."""
