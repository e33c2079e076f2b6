"""Whether a model can be served as configured, told from its header before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inference.protocol.cache_types import BLOCK_LEN, QUANTISED
from inference.registry.gguf.facts import GgufFacts
from llamaweb.lib.errors import InvalidError

# What models do that write no answers, by purpose.
NO_ANSWERS: Final = {
    "embedding": "turns texts into vectors",
    "reranking": "rates texts",
    "diffusion": "writes by diffusion, which isn't served here",
    "speech": "makes or reads sound",
    "paired": "needs an encoder's run before it writes, which isn't served here",
}
SERVED: Final = frozenset({"embedding", "reranking"})  # of these


def purpose_check(facts: GgufFacts) -> None:
    """Whether it is a model that answers, or makes vectors or scores.

    Raises:
        InvalidError: it does something else.
    """
    what = NO_ANSWERS.get(facts.purpose)
    if what is not None and facts.purpose not in SERVED:
        raise InvalidError(f"this model ({facts.architecture}) {what}; it can't be served")


def answers_check(facts: GgufFacts) -> None:
    """Whether it can be what chats get that name no model.

    Raises:
        InvalidError: it writes no answers.
    """
    if facts.purpose in SERVED:
        raise InvalidError(
            f"this model ({facts.architecture}) {NO_ANSWERS[facts.purpose]}; "
            "it can't answer in a chat"
        )


def serving_check(facts: GgufFacts | None, values: Mapping[str, Any]) -> None:
    """Whether a model can be served with `values` of its config's fields; `facts`: None where
    nobody has read its header.

    Raises:
        InvalidError: naming the field.
    """
    _pooling_check(facts, values["pooling"])
    if facts is None:
        return
    lens = {"cache_type_k": facts.heads.key_len, "cache_type_v": facts.heads.value_len}
    for name, length in lens.items():
        if values[name] in QUANTISED and length % BLOCK_LEN:
            raise InvalidError(
                f"{name} {values[name]} needs attention heads of a multiple of {BLOCK_LEN}, this "
                f"model's have {length}",
                param=name,
            )


def is_context_cut(facts: GgufFacts, context_len: int) -> bool:
    """Whether an engine will make less of it than it was asked for."""
    return 0 < facts.context_len < context_len


def _pooling_check(facts: GgufFacts | None, pooling: str) -> None:
    ranks = facts is not None and facts.purpose == "reranking"
    if pooling == "rank" and not ranks:
        what = "this model's file names none" if facts is not None else "its file isn't known yet"
        raise InvalidError(
            f"pooling rank needs a model with a head that rates texts, and {what}", param="pooling"
        )
    if ranks and pooling not in ("auto", "rank"):
        raise InvalidError(
            f"this model rates texts, it makes no vectors that pooling {pooling} could be of",
            param="pooling",
        )
