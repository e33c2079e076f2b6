"""What stands around the reasoning of a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReasoningTags:
    """What stands around reasoning. `anywhere`: the tags are special tokens, so they mean what
    they say behind text too; others are taken for text there. `other_closers` end it as well."""

    opener: str
    closer: str
    anywhere: bool = False
    other_closers: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[str, ...]:
        """All that ends it."""
        return (self.closer, *self.other_closers)


THINK = ReasoningTags("<think>", "</think>")
# The first one that a template names. Of the longer ones some contain the shorter ones.
REASONING_TAGS = (
    ReasoningTags("<seed:think>", "</seed:think>", anywhere=True),
    ReasoningTags("<mm:think>", "</mm:think>"),
    ReasoningTags("[THINK]", "[/THINK]", anywhere=True),
    ReasoningTags("<|START_THINKING|>", "<|END_THINKING|>", anywhere=True),
    ReasoningTags("<|inner_prefix|>", "<|inner_suffix|>", anywhere=True),
    ReasoningTags("◁think▷", "◁/think▷", anywhere=True),
    ReasoningTags("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
    THINK,
    ReasoningTags("<thinking>", "</thinking>"),
    ReasoningTags("<reasoning>", "</reasoning>"),
)
