"""One engine as a child process."""

from __future__ import annotations

import signal

from inference.protocol.spec import EngineSpec, encode_spec
from inference.supervisor.child import ChildProcess


class EngineProcess(ChildProcess):
    """A started engine; see `ChildProcess`."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        super().__init__(spec.model, "inference.worker", encode_spec(spec))

    def drain(self) -> None:
        """Ask it to take nothing more and to end when what runs has ended."""
        self._signal(signal.SIGUSR1)
