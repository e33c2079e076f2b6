"""What happened to models between two looks, as events of the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from inference.edge.models.render import progress_body
from inference.edge.models.sight import Sight
from inference.edge.models.status import ModelStatus
from inference.registry.model_cards import Download

EVERY = "*"


@dataclass(frozen=True, slots=True)
class Look:
    """All models by name, downloads by file id. `ended`: states of files that were on their way at
    the look before; a file that is no more isn't there. `was_scanned`: since then."""

    models: Mapping[str, ModelStatus]
    downloads: Mapping[int, Download] = field(default_factory=dict)
    ended: Mapping[int, str] = field(default_factory=dict)
    was_scanned: bool = False

    def of(self, sight: Sight) -> Look:
        """What may be told of it to whom that is all."""
        if sight is None:
            return self
        models = {name: status for name, status in self.models.items() if name in sight}
        return Look(models, was_scanned=self.was_scanned)


def events_between(before: Look, now: Look) -> Iterator[dict[str, Any]]:
    """`{"model", "event", "data"?}` of each change."""
    if now.was_scanned:
        yield {"model": EVERY, "event": "models_reload"}
    yield from _download_events(before, now)
    for name, status in now.models.items():
        yield from _status_events(name, before.models.get(name), status)
    for name in before.models.keys() - now.models.keys():
        yield {"model": name, "event": "model_remove"}


def _download_events(before: Look, now: Look) -> Iterator[dict[str, Any]]:
    for file_id, download in now.downloads.items():
        if before.downloads.get(file_id) != download:
            data = {"progress": progress_body(download)}
            yield {"model": download.name, "event": "download_progress", "data": data}
    for file_id in before.downloads.keys() - now.downloads.keys():
        name, state = before.downloads[file_id].name, now.ended.get(file_id, "")
        if state == "ready":
            yield {"model": name, "event": "download_finished"}
        elif state in ("", "cancelled"):
            yield {"model": name, "event": "model_remove"}
        else:
            yield {"model": name, "event": "download_failed"}


def _status_events(
    name: str, before: ModelStatus | None, now: ModelStatus
) -> Iterator[dict[str, Any]]:
    old = {"value": "unloaded"} if before is None else before.body()
    body = now.body()
    if body == old:
        return
    is_spawn = now.value == "loading" and old["value"] == "unloaded"
    data = {"status": body.pop("value"), **body}
    yield {"model": name, "event": "model_status" if is_spawn else "status_change", "data": data}
