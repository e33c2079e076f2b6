"""Names of the keys in Redis.

All keys of a model carry the same hash tag, so that every script stays legal in a cluster. The
scripts derive the rest of a model's keys from `ModelKeys.meta`; see scripts/prelude.lua.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class ModelKeys:
    """Keys of one model's queue that Python names itself."""

    base: str

    @property
    def meta(self) -> str:
        """Counters; first key of every script."""
        return self.base + "meta"

    @property
    def control(self) -> str:
        """Stream that grows when engines have something new to look at."""
        return self.base + "control"

    @property
    def places(self) -> str:
        """Stream that grows when somebody's place in the queue may have changed."""
        return self.base + "places"

    def stream(self, generation_id: str) -> str:
        """Log of a generation: entry ids `<incarnation>-<seq>`, field `e`."""
        return f"{self.base}s:{generation_id}"

    def generation(self, generation_id: str) -> str:
        """What is known of a generation, a hash."""
        return f"{self.base}g:{generation_id}"


def model_keys(prefix: str, model: str) -> ModelKeys:
    """Keys of `model`; braces in its name are escaped, for they would end the hash tag."""
    return ModelKeys(f"{prefix}{{{quote(model, safe=' /:@')}}}:")


def streams_key(prefix: str, owner_key: str) -> str:
    """Hash of the streams that an owner may take up again."""
    return f"{prefix}streams:{owner_key}"


def models_key(prefix: str) -> str:
    """Set of every model that has a queue."""
    return f"{prefix}models"


def wake_key(prefix: str, reader_id: str) -> str:
    """Stream by which a web process interrupts its own blocking read."""
    return f"{prefix}wake:{reader_id}"
