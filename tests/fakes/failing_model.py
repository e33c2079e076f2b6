"""An engine class whose answers fail: the mock's, each after FAIL_AFTER tokens."""

from __future__ import annotations

from dataclasses import replace

from inference.engine.contract import TokenEngine
from inference.engine.factory import build_engine
from inference.protocol.spec import EngineSpec
from inference.text.tokenizer import Tokenizer

FAIL_AFTER = 10
DELAY_MS = 20.0  # a token: what comes before the failure is read before it


def failing(spec: EngineSpec) -> tuple[TokenEngine, Tokenizer]:
    """See `build_engine`."""
    mock = replace(spec.mock, fail_after=FAIL_AFTER, delay_ms=DELAY_MS)
    return build_engine(replace(spec, engine_class="mock", mock=mock))
