"""Models whose vectors may be shortened (Matryoshka representation learning)."""

from __future__ import annotations

import re
from typing import Final

# GGUF headers have no field for it, so it is told by what a model says it is.
ARCHITECTURES: Final = frozenset({"gemma-embedding", "jina-bert-v3"})
NAMES: Final = re.compile(
    r"qwen3 embedding|embeddinggemma|nomic embed text v1 5|nomic embed text v2|mxbai embed large v1"
    r"|jina embeddings v[3-5]|snowflake arctic embed [ml] v(1 5|2 0)"
)


def is_nested(architecture: str, name: str) -> bool:
    """Whether leading numbers of a vector are a vector, by `general.architecture` and `.name`."""
    words = " ".join(re.split(r"[^a-z0-9]+", name.lower()))
    return architecture in ARCHITECTURES or NAMES.search(words) is not None
