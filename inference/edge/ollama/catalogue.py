"""Models as Ollama's lists show them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from inference.edge.models.render import catalogue_body
from inference.edge.models.status import status_of
from inference.queues.contract import EngineStatus
from inference.registry.gguf.facts import GgufFacts
from inference.registry.model_cards import ModelCard
from inference.text.answer.detect import answer_format
from inference.text.answer.families import GENERIC

# How far Ollama's API is followed; clients ask whether it is new enough for them.
API_VERSION: Final = "0.12.11"
NEVER: Final = "2999-12-31T23:59:59Z"  # no model leaves because of its age
DIGEST_KIND: Final = "sha256:"
SHARED_FIELDS: Final = ("name", "model", "modified_at", "size", "digest", "details")


def model_entry(card: ModelCard) -> dict[str, Any]:
    """A model in a list."""
    body = catalogue_body(card)
    entry = {name: body[name] for name in SHARED_FIELDS}
    entry["modified_at"] = entry["modified_at"] or None
    entry["digest"] = entry["digest"].removeprefix(DIGEST_KIND)
    return entry


def running_entry(card: ModelCard, engines: Sequence[EngineStatus]) -> dict[str, Any] | None:
    """A model in the list of those that are in memory; None if it isn't."""
    status = status_of(card.info, engines)
    if status.value != "loaded":
        return None
    entry = model_entry(card)
    del entry["modified_at"]
    on_gpus = max((int(e.info.get("gpu_memory_need_bytes", 0)) for e in engines), default=0)
    return {
        **entry,
        "expires_at": NEVER,
        "size_vram": on_gpus,
        "context_length": status.context or 0,
    }


def sheet(card: ModelCard, template: str) -> dict[str, Any]:
    """All that is shown of one model."""
    entry = model_entry(card)
    can: list[str] = catalogue_body(card)["capabilities"]
    return {
        "modified_at": entry["modified_at"],
        "details": entry["details"],
        "template": template,
        "parameters": "\n".join(f"{name} {value}" for name, value in card.info.sampling.items()),
        "model_info": _model_info(card.facts),
        "capabilities": [*can, *(_more(template) if can == ["completion"] else ())],
    }


def _model_info(facts: GgufFacts | None) -> dict[str, Any]:
    """What the file's header says, in its own names; what it doesn't say isn't there."""
    if facts is None:
        return {}
    family = facts.architecture
    known: dict[str, Any] = {
        "general.architecture": family,
        "general.basename": facts.name,
        "general.size_label": facts.size_label,
        "general.parameter_count": facts.weights.num_params,
        f"{family}.context_length": facts.context_len,
        f"{family}.embedding_length": facts.embedding_len,
        f"{family}.block_count": facts.num_layers,
        f"{family}.feed_forward_length": facts.feed_forward_len,
        "tokenizer.ggml.model": facts.tokens.model,
    }
    return {name: value for name, value in known.items() if value}


def _more(template: str) -> list[str]:
    """What the chat template has a form for."""
    form = answer_format(template)
    is_thinking = form.reasoning is not None or form.is_harmony
    tools = ["tools"] if form.family != GENERIC.family else []
    return [*tools, *(["thinking"] if is_thinking else [])]
