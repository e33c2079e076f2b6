"""From the row of another server to what its engine is told: the one place that opens a key."""

from __future__ import annotations

from typing import Literal, cast

from django.conf import settings

from inference.models import ModelConfig
from inference.protocol.spec import UpstreamSpec
from inference.registry.upstreams import ENGINE_CLASS, upstream_key
from inference.upstream_models import Upstream
from llamaweb.lib.errors import FailedError


def upstream_spec(config: ModelConfig) -> UpstreamSpec:
    """How the server behind `config` is asked; nothing for a model that runs here.

    Raises:
        FailedError: it isn't known, or its key can't be opened.
    """
    if config.engine_class != ENGINE_CLASS:
        return UpstreamSpec()
    upstream = Upstream.objects.filter(pk=config.pk).first()
    if upstream is None:
        raise FailedError("the model has no upstream server; delete it and add it again")
    return UpstreamSpec(
        url=upstream.url,
        model=upstream.remote_model,
        key=upstream_key(upstream),
        dialect=cast("Literal['openai', 'llama_server']", upstream.dialect),
        continues=upstream.continues,
        idle_s=settings.UPSTREAM_IDLE_S,
        allow=tuple(map(str, settings.OUTBOUND_ALLOW)),
    )
