"""Models as a plan sees them, and a world in which plans are carried out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from inference.supervisor.placement import PATIENCE_S, Model, Plan, Room, plan

GIB = 1 << 30
NOW = 1000.0
ONE = Room(GIB, GIB)  # room for one model of a GiB


def room(gib: float, max_loaded: int = 0) -> Room:
    return Room(int(gib * GIB), int(gib * GIB), max_loaded)


def off(name: str, gib: float = 1.0, **fields: Any) -> Model:
    return Model(name, int(gib * GIB), **fields)


def ready(name: str, gib: float = 1.0, **fields: Any) -> Model:
    return off(name, gib, **({"state": "ready", "used_at": 100.0} | fields))


def asked(name: str, gib: float = 1.0, for_s: float = 1.0, **fields: Any) -> Model:
    return off(name, gib, **({"num_waiting": 1, "waits_since": NOW - for_s} | fields))


def planned(*models: Model, room: Room = ONE) -> Plan:
    return plan(models, room, NOW)


@dataclass(eq=False)
class Request:
    since: float
    work_s: float


@dataclass
class Simulated:
    model: Model
    waiting: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    loads_till: float = 0.0


class World:
    """Engines that load, take two requests at a time, drain and end, as they are told."""

    LOAD_S = 3.0

    def __init__(self, models: list[Model], room: Room) -> None:
        """`answered`: requests in the order in which their answers began; `plan`: the last one."""
        self.of = {m.name: Simulated(m) for m in models}
        self.room, self.now, self.num_loads = room, NOW, 0
        self.longest_wait_s = 0.0
        self.answered: list[Request] = []
        self.plan = Plan()

    def tick(self, dt: float = 1.0) -> None:
        self.now += dt
        for one in self.of.values():
            self._live(one, dt)
        seen = [self._seen(one) for one in self.of.values()]
        found = plan(seen, self.room, self.now)
        self._check(seen, found)
        self.plan = found
        for name, _ in found.leave:
            one = self.of[name]
            one.model = replace(one.model, state="draining")
        for name in found.start:
            self.num_loads += 1
            one = self.of[name]
            one.model = replace(one.model, state="loading")
            one.loads_till = self.now + self.LOAD_S
        for name in found.refused:
            self.of[name].waiting.clear()

    def _live(self, one: Simulated, dt: float) -> None:
        for request in one.running:
            request.work_s -= dt
        one.running = [request for request in one.running if request.work_s > 0]
        if one.model.state == "loading" and self.now >= one.loads_till:
            one.model = replace(one.model, state="ready", ready_since=self.now)
        if one.model.state == "draining" and not one.running:
            one.model = replace(one.model, state="off")
        while one.model.state == "ready" and one.waiting and len(one.running) < 2:
            request = one.waiting.pop(0)
            self.longest_wait_s = max(self.longest_wait_s, self.now - request.since)
            one.running.append(request)
            self.answered.append(request)
        if one.running or one.waiting:
            one.model = replace(one.model, used_at=self.now)

    @staticmethod
    def _seen(one: Simulated) -> Model:
        return replace(
            one.model,
            num_running=len(one.running),
            num_waiting=len(one.waiting),
            waits_since=one.waiting[0].since if one.waiting else 0.0,
        )

    def _check(self, seen: list[Model], found: Plan) -> None:
        by_name = {model.name: model for model in seen}
        used = sum(m.need_bytes for m in seen if m.state != "off" or m.name in found.start)
        assert used <= self.room.budget_bytes
        held = sum(m.state != "off" or m.name in found.start for m in seen)
        assert not self.room.max_loaded or held <= self.room.max_loaded
        for name, whom in found.leave:
            victim, asker = by_name[name], by_name[whom]
            assert not victim.is_pinned
            assert victim.state in ("ready", "loading")
            if victim.num_waiting:  # what it was loaded for is answered first
                assert victim.waits_since > asker.waits_since
            if victim.is_asked:
                assert self.now - asker.waits_since >= PATIENCE_S
                assert victim.state == "ready"
        for model in seen:
            if model.num_waiting and model.state != "ready":
                assert found.reasons[model.name].text.startswith(f"model {model.name} ")
            if model.state != "off":
                assert model.name not in found.start


def alternating(world: World, names: list[str], num: int, every_s: int, work_s: float) -> None:
    """One request after another, of each model in turn; until all are answered."""
    for number in range(num):
        name = names[number % len(names)]
        world.of[name].waiting.append(Request(world.now, work_s))
        for _ in range(every_s):
            world.tick()
    for _ in range(600):
        world.tick()
    assert not any(one.waiting or one.running for one in world.of.values())
