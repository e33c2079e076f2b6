"""Who may follow the models where many do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inference.edge.models.sight import Sight
from inference.edge.models.watch import KEPT, MAX_LISTENERS, MAX_OF_USER, Listener, ModelWatch
from llamaweb.lib.errors import BusyError

OWN: Sight = frozenset({"m"})


def caller(user_id: int) -> Any:
    return SimpleNamespace(user_id=user_id)


def join(watch: ModelWatch, user_id: int, sight: Sight) -> None:
    watch._check_room(caller(user_id), sight)
    watch._listeners.add(Listener(caller(user_id), sight))


def test_administrators_find_a_place_though_others_take_all_they_may() -> None:
    watch, most = ModelWatch(), MAX_LISTENERS - KEPT
    for number in range(most):
        join(watch, number // MAX_OF_USER, OWN)
    with pytest.raises(BusyError, match=f"{most} clients follow the models already"):
        join(watch, 98, OWN)
    for _ in range(KEPT):
        join(watch, 99, None)
    with pytest.raises(BusyError, match=f"{MAX_LISTENERS} clients follow"):
        join(watch, 100, None)
