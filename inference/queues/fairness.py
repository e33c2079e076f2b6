"""Who is next: lanes in order, owners in turn, of one owner the earliest submit.

Pure. The scripts do the same on sorted sets (scripts/prelude.lua).
"""

from __future__ import annotations

from bisect import insort
from typing import Literal, TypeAlias

from inference.queues.facts import WaitingLane

Place: TypeAlias = WaitingLane | Literal["front"]


class Lane:
    """Requests of one lane. The owner whose turn was longest ago is next."""

    def __init__(self) -> None:
        self._owners: dict[str, list[tuple[int, str]]] = {}  # in order of turns

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._owners.values())

    def push(self, owner: str, number: int, generation_id: str) -> None:
        """Add a request; an owner who had none comes last."""
        insort(self._owners.setdefault(owner, []), (number, generation_id))

    def remove(self, owner: str, number: int, generation_id: str) -> None:
        """Take a request out wherever it stands."""
        self._owners[owner].remove((number, generation_id))
        if not self._owners[owner]:
            del self._owners[owner]

    def pop(self) -> str | None:
        """Take out the next request; its owner's turn is over."""
        for owner, queue in self._owners.items():
            _, generation_id = queue.pop(0)
            del self._owners[owner]
            if queue:
                self._owners[owner] = queue
            return generation_id
        return None

    def ahead(self, owner: str, number: int, generation_id: str) -> int:
        """How many are popped before this one if nothing changes."""
        own = self._owners[owner].index((number, generation_id))
        ahead, before = own, True
        for other, queue in self._owners.items():
            if other == owner:
                before = False
            else:
                ahead += min(len(queue), own + 1 if before else own)
        return ahead


class Waiting:
    """All that waits for engines of one model."""

    def __init__(self) -> None:
        self.front: list[tuple[int, str]] = []
        self.lanes: dict[WaitingLane, Lane] = {
            "interactive": Lane(),
            "background": Lane(),
            "utility": Lane(),
        }

    def __len__(self) -> int:
        return len(self.front) + sum(len(lane) for lane in self.lanes.values())

    def push(self, place: Place, owner: str, number: int, generation_id: str) -> None:
        """Add a request at `place`; the front is in order of submits."""
        if place == "front":
            insort(self.front, (number, generation_id))
        else:
            self.lanes[place].push(owner, number, generation_id)

    def remove(self, place: Place, owner: str, number: int, generation_id: str) -> None:
        """Take a request out."""
        if place == "front":
            self.front.remove((number, generation_id))
        else:
            self.lanes[place].remove(owner, number, generation_id)

    def ahead(self, place: Place, owner: str, number: int, generation_id: str) -> int:
        """How many are claimed before this one if nothing changes."""
        if place == "front":
            return self.front.index((number, generation_id))
        ahead = self.lanes[place].ahead(owner, number, generation_id)
        if place != "utility":
            ahead += len(self.front)
        if place == "background":
            ahead += len(self.lanes["interactive"])
        return ahead

    def waiting(self, place: Place) -> int:
        """How many wait in the same line."""
        if place == "utility":
            return len(self.lanes["utility"])
        return len(self) - len(self.lanes["utility"])
