"""One trial as a child process, and whose turn it is to have one."""

from __future__ import annotations

from inference.protocol.codec import DecodeError
from inference.protocol.trial import TrialOrder, TrialReport, decode_report, encode_line
from inference.supervisor.child import ChildProcess

MODULE = "inference.worker.trial"
LOAD_S = 120.0  # to start, and to load a small model from a slow disk
LOAD_S_PER_GIB = 20.0


class TrialProcess(ChildProcess):
    """A started trial; see `ChildProcess`."""

    def __init__(self, order: TrialOrder, *, file_bytes: int) -> None:
        self.order = order
        self._limit_s = LOAD_S + LOAD_S_PER_GIB * file_bytes / 2**30 + 2 * order.budget_s
        super().__init__(order.spec.model, MODULE, encode_line(order), answers=True)

    @property
    def is_late(self) -> bool:
        """Whether it has had its time; kill it then."""
        return self.lived_s > self._limit_s

    @property
    def report(self) -> TrialReport | None:
        """What an ended trial has to say; None if that isn't a report."""
        try:
            return decode_report(self.answer)
        except DecodeError:
            return None


class TrialSeat:
    """One trial at a time on a machine: two would measure each other."""

    def __init__(self) -> None:
        self._holder: object | None = None

    def take(self, holder: object) -> bool:
        """Whether `holder` has the seat now."""
        if self._holder is None:
            self._holder = holder
        return self._holder is holder

    def leave(self, holder: object) -> None:
        """Let the next one have it."""
        if self._holder is holder:
            self._holder = None
