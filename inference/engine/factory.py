"""From an `EngineSpec` to a running engine."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, cast

from inference.engine.config import EngineConfig
from inference.engine.contract import TokenEngine
from inference.engine.engine import Engine
from inference.engine.loading import LoadStoppedError, OnLoad, go_on, say
from inference.engine.mock_backend import (
    DEFAULT_CONTEXT_LEN,
    MockBackend,
    mock_adapters,
    mock_load,
)
from inference.engine.threads import ThreadGovernor
from inference.engine.trace import Trace
from inference.protocol.spec import EngineSpec
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.cpus import CoreMeter, num_cores
from llamaweb.lib.errors import FailedError, InvalidError


def build_engine(spec: EngineSpec, on_load: OnLoad = go_on) -> tuple[TokenEngine, Tokenizer]:
    """Load what `spec` names; returns when the first decode has worked.

    `engine_class` is "llama", "mock" or "package.module.name" of a callable that takes the spec
    and returns the same pair; `on_load` hears nothing of that one's load.

    Raises:
        InvalidError: no such class, or settings that contradict each other.
        FailedError: the model can't be loaded; the message says why.
        LoadStoppedError: `on_load` said so.
    """
    check_spec(spec)
    if spec.engine_class == "mock":
        return _build_mock(spec, on_load)
    if spec.engine_class == "llama":
        return _build_llama(spec, on_load)
    return _build_custom(spec)


def check_spec(spec: EngineSpec) -> None:
    """Whether its settings can be had together.

    Raises:
        InvalidError: they can't.
    """
    if spec.batch_len <= spec.num_slots:
        raise InvalidError("batch_len must be larger than num_slots", param="batch_len")


def _build_mock(spec: EngineSpec, on_load: OnLoad) -> tuple[TokenEngine, Tokenizer]:
    mock_load(spec.mock, on_load)
    backend = MockBackend(
        spec.mock,
        num_seqs=spec.num_slots,
        max_context=spec.context_len or DEFAULT_CONTEXT_LEN,
        batch_len=spec.batch_len,
        ubatch_len=spec.ubatch_len,
        is_unified=spec.kv_unified,
        adapters=mock_adapters(spec.adapters),
        pool_len=spec.pool_contexts * (spec.context_len or DEFAULT_CONTEXT_LEN),
    )
    return Engine(backend, engine_config(spec), trace=_trace(spec)), backend.tokenizer


def _build_llama(spec: EngineSpec, on_load: OnLoad) -> tuple[TokenEngine, Tokenizer]:
    # Only here: the mock must run where the library isn't built.
    from inference.engine.llama_load import init_library, load_model, num_threads

    init_library()
    model = load_model(spec, on_load)
    return llama_engine(spec, model, on_load, thread_governor(spec, num_threads(spec)))


def llama_engine(
    spec: EngineSpec, model: Any, on_load: OnLoad, governor: ThreadGovernor | None
) -> tuple[TokenEngine, Tokenizer]:
    """An engine that writes answers with a model of llama.cpp, and frees it.

    Raises:
        FailedError, InvalidError, LoadStoppedError: as `build_engine`.
    """
    from inference.engine.llama_backend import LlamaBackend

    backend = LlamaBackend.on(model, spec)
    warm_up(backend, on_load)
    if governor is not None:
        governor.start()
    engine = Engine(backend, engine_config(spec), threads=governor, trace=_trace(spec))
    return engine, backend.tokenizer


class Warmable(Protocol):
    """What has to have computed once before it has work."""

    def warm_up(self) -> None:
        """Compute once."""
        ...

    def close(self) -> None:
        """Free it."""
        ...


def warm_up(backend: Warmable, on_load: OnLoad) -> None:
    """Have it compute once; it is closed if that fails.

    Raises:
        FailedError: it can't.
        LoadStoppedError: `on_load` said so.
    """
    try:
        say(on_load, 1.0)
        # In a thread that ends. Whoever computes owns a pool of OpenMP threads for as long as it
        # lives, and beside a second pool libgomp puts threads to sleep at every barrier: an engine
        # that is loaded in one thread and stepped in another ran at half its speed.
        with ThreadPoolExecutor(1, thread_name_prefix="warm-up") as once:
            once.submit(backend.warm_up).result()
    except (FailedError, LoadStoppedError):
        backend.close()
        raise


def thread_governor(spec: EngineSpec, num_threads: int) -> ThreadGovernor | None:
    """Who gives cores up while others need them; None where nobody is to."""
    if not spec.yields_cores or num_threads == 1:
        return None
    return ThreadGovernor(num_threads, cores=num_cores(), meter=CoreMeter())


def _build_custom(spec: EngineSpec) -> tuple[TokenEngine, Tokenizer]:
    module_name, _, name = spec.engine_class.rpartition(".")
    try:
        build = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidError(
            f"there is no engine class {spec.engine_class!r}", param="engine_class"
        ) from error
    return cast("tuple[TokenEngine, Tokenizer]", build(spec))


def engine_config(spec: EngineSpec) -> EngineConfig:
    """How an engine of `spec` divides its time and its memory."""
    return EngineConfig(
        step_target_s=spec.step_target_ms / 1e3,
        host_cache_bytes=spec.cache_ram_mib << 20,
        context_shift=spec.context_shift,
        special_tokens=spec.special_tokens,
        verify_cache=spec.verify_cache,
    )


def _trace(spec: EngineSpec) -> Trace | None:
    if not spec.trace_path:
        return None
    try:
        return Trace(Path(spec.trace_path), spec.num_slots)
    except OSError as error:
        raise InvalidError(
            f"the trace can't be written to {spec.trace_path!r}: {error.strerror}",
            param="trace_path",
        ) from error
