"""From a spec to an engine that asks another server, once that has shown that it is there."""

from __future__ import annotations

from inference.engine.upstream.engine import UpstreamEngine
from inference.engine.upstream.health import Health, context_in
from inference.engine.upstream.link import Link
from inference.engine.upstream.request import UpstreamPipeline
from inference.protocol.spec import EngineSpec
from llamaweb.lib.clock import SystemClock
from llamaweb.lib.errors import FailedError, InvalidError


def build_upstream(spec: EngineSpec) -> tuple[UpstreamEngine, UpstreamPipeline]:
    """An engine and what writes its requests.

    `spec.context_len` wins over what the server says of its model.

    Raises:
        InvalidError: no address or no model is given.
        FailedError: the server can't be reached or refuses the key.
    """
    upstream = spec.upstream
    if not upstream.url or not upstream.model:
        raise InvalidError("an upstream needs an address and a model there", param="upstream")
    clock, link = SystemClock(), Link(upstream)
    health = Health(link, clock)
    trouble, listing = health.look()
    if trouble is not None:
        raise FailedError(trouble.reason or "the upstream server doesn't answer as it should")
    engine = UpstreamEngine(link, health, clock, num_slots=spec.num_slots)
    engine.max_context = spec.context_len or context_in(listing, upstream.model)
    return engine, UpstreamPipeline(upstream)
