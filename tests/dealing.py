"""How tests are dealt out to xdist's workers: `pytest_xdist_make_scheduler` in conftest.

A unit is what one worker runs from its begin to its end: a module, a class, or the modules that
share a server. Units of whole servers wait much and compute little, so some workers take them from
the front of the queue, while the others take what computes from its back: both halves of a run take
place side by side. Where they meet, what is left is short.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# Modules that use one server, behind each other, and the name of their unit.
SHARED: Final = {
    f"tests/{folder}/test_{name}.py": unit
    for unit, folder, names in (
        ("faults", "faults", "canary engine_process paused_engine schedules web_killed"),
        ("two web processes", "browser", "durable fallback"),
        ("plain server", "browser", "app_page hostile"),
        ("pages", "browser", "pages"),
    )
    for name in names.split()
}
# The longest, so that none of them begins when the others are through: of whole servers, and of
# those that compute.
LONG_WAITS: Final = ("tests/browser/test_durable.py", "tests/browser/test_fallback.py")
LONG_SUMS: Final = ("tests/model/", "tests/engine/test_state_machine.py")


def place(item: pytest.Item) -> tuple[int, int]:
    """Where a test stands in the queue, by sorting: whole servers in front, the longest first;
    what computes behind, the longest last."""
    path = item.nodeid.partition("::")[0]
    if any(item.iter_markers("stack")):
        return 0, -_rank(path, LONG_WAITS)
    return 1, _rank(path, LONG_SUMS)


def _rank(path: str, longest: tuple[str, ...]) -> int:
    """0 for what isn't among them; higher for what is longer."""
    found = (len(longest) - i for i, start in enumerate(longest) if path.startswith(start))
    return next(found, 0)


class Dealing(LoadScopeScheduling):
    """See the module."""

    def _split_scope(self, nodeid: str) -> str:
        unit = SHARED.get(nodeid.partition("::")[0])
        return unit or super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        number = int(node.gateway.id.removeprefix("gw"))
        if number % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
