"""What became of owned generations, as values for other apps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from inference.models import Generation
from inference.protocol.events import Usage
from inference.registry.generations import generation_finalise

GenerationState: TypeAlias = Literal["queued", "finished", "cancelled", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """`state` "queued" means that it goes on; then the rest says nothing. `parts`: (kind, text)
    runs, partial unless `state` is "finished". `finish_reason`: stop, length, tool_calls."""

    generation_id: str
    model_name: str
    state: GenerationState
    parts: tuple[tuple[str, str], ...] = ()
    finish_reason: str = ""
    error_code: str = ""
    error_message: str = ""
    usage: Usage = field(default_factory=Usage)

    @property
    def is_ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.state != "queued"


def generation_result(generation_id: str) -> GenerationResult | None:
    """How a generation stands; one that ended is stored first (`generation_finalise`).

    Returns:
        None: there is no such generation.
    """
    generation_finalise(generation_id)
    return generation_results([generation_id]).get(generation_id)


def generation_results(generation_ids: Iterable[str]) -> dict[str, GenerationResult]:
    """What the database says of these, without asking the queue; absent ones are left out."""
    rows = Generation.objects.filter(id__in=list(generation_ids)).defer("request")
    return {row.id: _result(row) for row in rows}


def _result(row: Generation) -> GenerationResult:
    return GenerationResult(
        generation_id=row.id,
        model_name=row.model_name,
        state=cast(GenerationState, row.state),
        parts=tuple((kind, text) for kind, text in row.parts),
        finish_reason=row.finish_reason,
        error_code=row.error_code,
        error_message=row.error_message,
        usage=Usage(row.prompt_tokens, row.completion_tokens, row.cached_tokens),
    )
