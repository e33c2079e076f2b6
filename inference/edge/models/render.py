"""Models as the wire has them: OpenAI's list with llama-server's fields."""

from __future__ import annotations

from typing import Any, Final

from inference.edge.models.status import ModelStatus
from inference.registry.gguf.facts import GgufFacts
from inference.registry.model_cards import Download, ModelCard
from inference.registry.selectors import Task

OWNED_BY: Final = "llamaweb"
TEXT_ONLY: Final = ("text",)  # what requests may hold, whatever a model could take
CAPABILITIES: Final[dict[Task, str]] = {
    "answers": "completion",
    "embedding": "embedding",
    "reranking": "rerank",
}
# Of a tokenizer's name in the file, as llama.cpp counts them.
VOCAB_TYPES: Final = {
    "no_vocab": 0, "none": 0, "llama": 1, "gpt2": 2, "gemma4": 2, "bert": 3, "t5": 4, "rwkv": 5,
    "plamo2": 6,
}  # fmt: skip


def list_body(models: list[tuple[ModelCard, ModelStatus]], more: list[Download]) -> dict[str, Any]:
    """All models, and what is on its way."""
    return {
        "object": "list",
        "data": [
            *(model_body(card, status) for card, status in models),
            *map(download_body, more),
        ],
        "models": [catalogue_body(card) for card, _ in models],
    }


def model_body(card: ModelCard, status: ModelStatus) -> dict[str, Any]:
    """One model."""
    info = card.info
    return {
        "id": info.name,
        "aliases": [*info.aliases, *(["default"] if card.is_default else [])],
        "tags": list(info.tags),
        "object": "model",
        "created": info.created,
        "owned_by": OWNED_BY,
        "capabilities": [CAPABILITIES[info.task]],
        "architecture": {
            "input_modalities": list(TEXT_ONLY),
            "output_modalities": list(TEXT_ONLY),
        },
        "source": card.source,
        "can_remove": card.can_remove,
        "status": status.body(),
        "meta": _meta(card, status),
    }


def download_body(download: Download) -> dict[str, Any]:
    """A model that can't be asked yet."""
    return {
        "id": download.name,
        "aliases": [],
        "tags": [],
        "object": "model",
        "created": int(download.created_at.timestamp()),
        "owned_by": OWNED_BY,
        "source": "cache",
        "can_remove": True,
        "status": {"value": "downloading", "progress": progress_body(download)},
        "meta": None,
    }


def progress_body(download: Download) -> dict[str, Any]:
    """Bytes by address; `total` 0: nobody knows it yet."""
    return {
        url: {"done": done, "total": total or 0} for url, (done, total) in download.files.items()
    }


def catalogue_body(card: ModelCard) -> dict[str, Any]:
    """A model in the older list beside `data`."""
    facts, info = card.facts, card.info
    family = "" if facts is None else facts.architecture
    return {
        "name": info.name,
        "model": info.name,
        "modified_at": "" if card.modified_at is None else card.modified_at.isoformat(),
        "size": card.size or 0,
        "digest": f"sha256:{card.digest}" if card.digest else "",
        "type": "model",
        "description": "",
        "tags": list(info.tags),
        "capabilities": [CAPABILITIES[info.task]],
        "parameters": "",
        "details": {
            "parent_model": "",
            "format": "" if facts is None else "gguf",
            "family": family,
            "families": [family] if family else [],
            "parameter_size": "" if facts is None else facts.size_label,
            "quantization_level": "" if facts is None else facts.quantization,
        },
    }


def _meta(card: ModelCard, status: ModelStatus) -> dict[str, Any] | None:
    """What is known of the file and of the context that an engine has; null if neither."""
    if card.facts is None and status.value != "loaded":
        return None
    facts = card.facts or GgufFacts("other", 0, 0)
    return {
        "vocab_type": VOCAB_TYPES.get(facts.tokens.model),
        "n_vocab": facts.tokens.num or None,
        "n_ctx": status.context,
        "n_ctx_train": facts.context_len or None,
        "n_embd": facts.embedding_len or None,
        "n_params": facts.weights.num_params or None,
        "size": facts.size or None,
        "ftype": facts.quantization or None,
    }
