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


def serving_check(facts: GgufFacts, values: Mapping[str, Any]) -> None:
    """Whether a model can be served with `values` of its config's fields.

    Raises:
        InvalidError: naming the field.
    """
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
