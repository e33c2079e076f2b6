"""How the vectors of a text's tokens become one, and what its length is made to be."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

# none: they don't; mean: of all tokens; cls, last: the first or the last token's; rank: a score by
# the model's head for that.
Pooling: TypeAlias = Literal["none", "mean", "cls", "last", "rank"]
PoolingChoice: TypeAlias = Literal["auto", Pooling]

# What a vector is divided by: the p-norm of that p, or one of these.
UNCHANGED: Final = -1
BY_LARGEST: Final = 0
EUCLIDEAN: Final = 2
MAX_NORM: Final = 1000
