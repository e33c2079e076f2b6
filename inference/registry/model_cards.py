"""Models with all that lists show of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias

from inference.models import ModelConfig, ModelFile
from inference.registry.config_services import delete_refusal
from inference.registry.gguf.facts import GgufFacts
from inference.registry.memory_plan import config_facts
from inference.registry.model_access import access_models
from inference.registry.selectors import ModelInfo, config_resolve, in_order, model_info

Source: TypeAlias = Literal["preset", "models_dir", "cache"]
STILL_OPEN: Final = ("queued", "downloading", "paused")


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model for lists. `facts`: of its file's header, None where there is none to read. `digest`:
    the file's SHA-256 if it is known. `source`: "cache" for what was downloaded, "models_dir" for
    files of others, "preset" for what has no file of its own."""

    info: ModelInfo
    is_default: bool
    facts: GgufFacts | None = None
    size: int | None = None
    digest: str = ""
    modified_at: datetime | None = None
    source: Source = "preset"
    can_remove: bool = False


@dataclass(frozen=True, slots=True)
class Download:
    """A model on its way. `files`: bytes that are here and bytes in all (None: not known yet), by
    address without its query, which may be a secret."""

    file_id: int
    name: str
    created_at: datetime
    files: dict[str, tuple[int, int | None]] = field(default_factory=dict)


def model_cards_for(user_id: int, only: Collection[str] = ()) -> list[ModelCard]:
    """Of the models of `access_models`, the first is what they get without a name."""
    return _cards(in_order(access_models(user_id, only)).select_related("file"))


def model_card_for(user_id: int, name: str | None, only: Collection[str] = ()) -> ModelCard:
    """Of the model that a user's `name` means; raises as `model_resolve_for`."""
    configs = access_models(user_id, only).select_related("file")
    config = config_resolve(configs, name)
    return _card(config, is_default=config == config_resolve(configs, None))


def downloads_open() -> list[Download]:
    """The models that are to be made of what is being downloaded."""
    found: dict[int, Download] = {}
    rows = ModelFile.objects.filter(state__in=STILL_OPEN, is_owned=True).exclude(source_url="")
    for row in sorted(rows, key=lambda row: (row.main_id is not None, row.pk)):
        home = row.pk if row.main_id is None else row.main_id
        if row.main_id is None:
            found[row.pk] = Download(row.pk, row.config_name or str(row), row.created_at)
        if home in found:
            found[home].files[row.source_url.partition("?")[0]] = (row.bytes_done, row.size)
    return list(found.values())


def _cards(configs: Iterable[ModelConfig]) -> list[ModelCard]:
    return [_card(config, is_default=not index) for index, config in enumerate(configs)]


def _card(config: ModelConfig, *, is_default: bool) -> ModelCard:
    info, file = model_info(config), config.file
    facts = config_facts(config)
    if file is None:
        size = None if facts is None else facts.size
        return ModelCard(info, is_default, facts, size, modified_at=config.updated_at)
    return ModelCard(
        info,
        is_default,
        facts,
        facts.size if facts is not None else file.size,
        file.sha256,
        file.updated_at,
        source="cache" if file.is_owned else "models_dir",
        can_remove=file.is_owned and not delete_refusal(config),
    )
