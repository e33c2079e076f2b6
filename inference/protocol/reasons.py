"""Why a model isn't there, in words that may name other models, of which not everybody may know."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Final

UNNAMED: Final = "another model"


class Other(str):
    """The name of another model, as a piece of a reason."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """`text` is for administrators; `hidden` says the same without the names of `others`. False
    where there is none."""

    text: str = ""
    hidden: str = ""
    others: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text)

    def told_to(self, visible: Container[str]) -> str:
        """For somebody who may know of the models in `visible`."""
        return self.text if all(name in visible for name in self.others) else self.hidden


NO_REASON: Final = Reason()


def reason(*pieces: str) -> Reason:
    """What `pieces` say, one behind the other."""
    others = tuple(dict.fromkeys(str(piece) for piece in pieces if isinstance(piece, Other)))
    hidden = "".join(UNNAMED if isinstance(piece, Other) else piece for piece in pieces)
    return Reason("".join(pieces), hidden, others)


def reason_info(why: Reason) -> dict[str, str]:
    """As heartbeats carry it."""
    info = {"reason": why.text}
    if why.others:
        info |= {"reason_hidden": why.hidden, "reason_names": "\n".join(why.others)}
    return info


def reason_read(info: Mapping[str, float | int | str]) -> Reason:
    """What a heartbeat carries."""
    text = str(info.get("reason", ""))
    names = str(info.get("reason_names", "")).splitlines()
    return Reason(text, str(info.get("reason_hidden", "")) or text, tuple(names))
