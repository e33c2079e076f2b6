"""Which models are in memory: who is loaded for whom, and who has to leave. Pure.

Asked again every moment with what is true then; nothing is remembered here, so a request that was
withdrawn costs nobody anything. The rules:

- Models that requests wait for are served in the order of their oldest request. One that doesn't
  fit yet blocks those behind it, else small models could starve a large one. Those pass that fit
  now and leave it the room that it waits for; all may while other programs take that room.
- Room is made of idle engines, the least recently used first, when all that are needed are idle;
  else nobody leaves and the request waits. An engine stays `MIN_RESIDENCE_S` at least.
- After `PATIENCE_S` a busy engine may have to drain as well, unless a request older than the one
  that is waited for still waits at it: that is what it was loaded for.
- Pinned engines never leave, and what is larger than the room beside them never fits.
- Models that are wanted without requests come back when there is room; for one of them an engine
  that only requests want leaves after `STANDING_IDLE_S` of idleness. Work in the background loads
  a model where there is room and makes none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from inference.protocol.reasons import NO_REASON, Other, Reason, reason
from inference.supervisor.placement_words import holders, named, size_text

# "renewing": it drains as well, but keeps its place for the engine that follows.
State: TypeAlias = Literal["off", "loading", "ready", "draining", "renewing"]

MIN_RESIDENCE_S = 10.0  # swaps are at least so far apart, however requests alternate
PATIENCE_S = 30.0  # so long a request waits before a busy engine of another model drains
STANDING_IDLE_S = 60.0


@dataclass(frozen=True, slots=True)
class Model:
    """A model and its engine, now. Times are of one clock, in seconds.

    `need_bytes`: of host memory, when loaded; alone `least_bytes` may do, if given. `gpu_bytes`:
    likewise, of the memory of each GPU; `is_spread`: while it is off only their sum counts, it will
    lie where there is room. `takes_place`: counts in `Room.max_loaded`. `num_waiting`: requests but
    those of the background, `waits_since` the oldest of them came. `ready_since`: when its engine
    became ready. `used_at`: when somebody last asked for it. `is_resting`: it could not be loaded
    and isn't tried again yet. `is_short`: its load failed for want of memory and is tried once more
    when all idle engines have left. `doing`: what is happening while it loads.
    """

    name: str
    need_bytes: int = 0
    least_bytes: int | None = None
    gpu_bytes: tuple[int, ...] = ()
    is_spread: bool = False
    state: State = "off"
    is_wanted: bool = False
    is_pinned: bool = False
    takes_place: bool = True
    num_running: int = 0
    num_waiting: int = 0
    num_background: int = 0
    waits_since: float = 0.0
    ready_since: float = 0.0
    used_at: float = 0.0
    is_resting: bool = False
    is_short: bool = False
    doing: str = ""

    @property
    def alone_bytes(self) -> int:
        """What it has to have where nothing else is in memory."""
        return self.need_bytes if self.least_bytes is None else self.least_bytes

    @property
    def is_asked(self) -> bool:
        """Whether anybody waits for it or is being answered."""
        return bool(self.num_running or self.num_waiting or self.num_background)


@dataclass(frozen=True, slots=True)
class Room:
    """What all engines together may take. `limit_bytes`: at most, whatever leaves; None: nobody can
    tell, memory isn't counted. `budget_bytes`: now, with the engines that are there; less than
    the limit where other programs take memory. `max_loaded` 0: any number. `gpu_…`: likewise, of
    each GPU, or of all together where only that is known."""

    budget_bytes: int = 0
    limit_bytes: int | None = None
    max_loaded: int = 0
    gpu_budgets: tuple[int, ...] = ()
    gpu_limits: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now. `leave`: (who drains, for whom). `reasons`: of each model that isn't ready
    though it is asked for or wanted, in words. `refused`: of those that never fit. `shares`: bytes
    of each GPU of those that start spread beside others there: what these are still loading isn't
    taken yet where llama.cpp looks."""

    start: tuple[str, ...] = ()
    leave: tuple[tuple[str, str], ...] = ()
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    refused: Mapping[str, Reason] = field(default_factory=dict)
    shares: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def plan(models: Sequence[Model], room: Room, now: float) -> Plan:
    """What to do at `now`; `models` in the order in which wanted ones are loaded."""
    return _Planner(models, room, now).plan()


class _Planner:
    """One round. `_held`: engines that take room now, those started in this round among them."""

    def __init__(self, models: Sequence[Model], room: Room, now: float) -> None:
        self._models = models
        self._room = room
        self._now = now
        self._held = [model for model in models if model.state != "off"]
        self._leaving = [model for model in models if model.state == "draining"]
        self._start: list[str] = []
        self._leave: list[tuple[str, str]] = []
        self._reasons: dict[str, Reason] = {}
        self._refused: dict[str, Reason] = {}
        self._shares: dict[str, tuple[int, ...]] = {}
        self._first_blocked: Model | None = None

    def plan(self) -> Plan:
        """See the function."""
        for model in self._models:
            if model.state == "loading":
                self._say(model, f"is {model.doing or 'loading'}")
            elif model.state in ("draining", "renewing") and model.num_waiting:
                self._say(model, "ends and is loaded again then")
        absent = [m for m in self._models if m.state == "off" and not m.is_resting]
        asked = sorted((m for m in absent if m.num_waiting), key=lambda m: m.waits_since)
        wished = [m for m in absent if not m.num_waiting and (m.is_wanted or m.num_background)]
        for model in [*asked, *wished]:
            self._place(model)
        start, leave = tuple(self._start), tuple(self._leave)
        return Plan(start, leave, self._reasons, self._refused, self._shares)

    def _place(self, model: Model) -> None:
        refusal = self._refusal(model)
        if refusal:
            self._refused[model.name] = self._reasons[model.name] = refusal
            return
        first = self._first_blocked
        if self._is_free(model):
            self._begin(model)
        elif first is not None and not self._may_pass(model, first):
            self._say(model, "waits for its turn behind ", Other(first.name))
        elif model.is_short and model.num_waiting and self._has_idle(model):
            self._make_room(model, self._idle(model))
            self._block(model, "is tried again when the idle models have left")
        elif self._fits(model):
            self._begin(model)
        else:
            self._wait(model)

    def _wait(self, model: Model) -> None:
        """It doesn't fit: see who leaves for it, and say what is waited for."""
        others = [held for held in self._held if held not in self._leaving]
        if not self._fits(model, without=self._leaving):
            self._make_room(model, self._victims(model, others))
        self._block(model, *self._lack(model))

    def _may_pass(self, model: Model, first: Model) -> bool:
        """Whether it may start before `first`, which has to have its room all the same when those
        have left that may leave. What was loaded since `first` waits counts as staying, else one
        after the other would pass."""
        if first.is_short or not self._fits(model):
            return False
        gone = [
            held
            for held in self._held
            if not held.is_pinned
            and held.state in ("ready", "draining")
            and (held.state == "draining" or held.ready_since < first.waits_since)
        ]
        return self._fits(first, without=gone, beside=self._laid(model))

    def _has_idle(self, model: Model) -> bool:
        """Whether any engine is idle, or leaves and is idle."""
        is_leaving_soon = any(not leaving.num_running for leaving in self._leaving)
        return is_leaving_soon or bool(self._idle(model))

    def _victims(self, model: Model, others: Iterable[Model]) -> list[Model]:
        """Who has to leave for `model`, beside those who do; nobody if that can't be enough."""
        if not model.num_waiting:
            if not model.is_wanted:
                return []
            found = self._idle(model, MIN_RESIDENCE_S, unused_s=STANDING_IDLE_S)
            return self._enough(model, [m for m in found if not m.is_wanted])
        idle = self._idle(model, MIN_RESIDENCE_S)
        victims = self._enough(model, idle)
        if victims or self._now - model.waits_since < PATIENCE_S:
            return victims
        busy = [m for m in others if m not in idle and self._may_drain(m, model)]
        busy.sort(key=lambda m: m.used_at)
        # The idle ones leave when the busy ones have: until then they can answer.
        return [m for m in self._enough(model, [*busy, *idle]) if m in busy]

    def _enough(self, model: Model, candidates: Sequence[Model]) -> list[Model]:
        """The first of `candidates` that make room, without those who turn out not to be needed."""
        chosen: list[Model] = []
        for candidate in candidates:
            if self._fits(model, without=[*self._leaving, *chosen]):
                break
            chosen.append(candidate)
        if not self._fits(model, without=[*self._leaving, *chosen]):
            return []
        for candidate in list(chosen):
            rest = [other for other in chosen if other is not candidate]
            if self._fits(model, without=[*self._leaving, *rest]):
                chosen = rest
        return chosen

    def _idle(
        self, model: Model, residence_s: float = 0.0, *, unused_s: float = 0.0
    ) -> list[Model]:
        """Engines nobody asks that have been ready and unused so long, the least recently used
        first. One that still loads though whoever it was loaded for has left is idle, too."""
        found = []
        for other in self._held:
            if other is model or other.is_pinned or other.is_asked:
                continue
            since = max(other.ready_since + residence_s, other.used_at + unused_s)
            is_given_up = other.state == "loading" and not other.is_wanted
            if is_given_up or (other.state == "ready" and self._now >= since):
                found.append(other)
        return sorted(found, key=lambda m: (m.state == "ready", m.used_at))

    def _may_drain(self, other: Model, model: Model) -> bool:
        """Whether a busy engine has to make way for the request that waits for `model`."""
        is_older = other.num_waiting > 0 and other.waits_since <= model.waits_since
        stays = other.is_pinned or other.state != "ready" or is_older
        return not stays and self._now >= other.ready_since + MIN_RESIDENCE_S

    # --- room

    def _is_free(self, model: Model) -> bool:
        """Whether it takes nothing that anybody could wait for."""
        takes_place = self._room.max_loaded and model.takes_place
        return not model.need_bytes and not any(model.gpu_bytes) and not takes_place

    def _fits(
        self, model: Model, without: Sequence[Model] = (), beside: Model | None = None
    ) -> bool:
        held = [other for other in self._held if other not in without]
        if beside is not None:
            held.append(beside)
        return (
            self._has_place(model, held)
            and self._has_memory(model, held)
            and self._short_gpu(model, held) is None
        )

    def _has_place(self, model: Model, held: Sequence[Model]) -> bool:
        most = self._room.max_loaded
        return not (most and model.takes_place and sum(m.takes_place for m in held) >= most)

    def _has_memory(self, model: Model, held: Sequence[Model]) -> bool:
        room = self._room
        if room.limit_bytes is None or not model.need_bytes:
            return True
        used = sum(other.need_bytes for other in held)
        if not used:  # tried whatever other programs take: they may give it back
            return model.alone_bytes <= room.limit_bytes
        return used + model.need_bytes <= room.budget_bytes

    def _short_gpu(
        self, model: Model, held: Sequence[Model]
    ) -> tuple[int, Callable[[Model], int]] | None:
        """The budget of the first GPU without memory enough, of all where it is spread, and what
        models take of it; None: they all have it, or it isn't counted."""
        room, rests = self._room, []
        rooms = zip(room.gpu_budgets, room.gpu_limits or (), strict=False)
        for index, (budget, limit) in enumerate(rooms):
            of = _on_gpu(index)
            used = sum(map(of, held))
            rests.append(max(0, (budget if used else limit) - used))
            if not model.is_spread and of(model) > rests[-1]:
                return budget, of
        if model.is_spread and rests and _on_gpus(model) > sum(rests):
            return sum(room.gpu_budgets), _on_gpus
        return None

    def _laid(self, model: Model) -> Model:
        """Where it will lie: what is spread lies by what those leave that are there."""
        used = [sum(map(_on_gpu(index), self._held)) for index in range(len(model.gpu_bytes))]
        if not model.is_spread or not any(used):
            return model  # llama.cpp sees best what other programs leave
        rests = [max(0, b - u) for b, u in zip(self._room.gpu_budgets, used, strict=False)]
        if not any(rests):
            return model
        num = _on_gpus(model)
        return replace(model, gpu_bytes=tuple(num * rest // sum(rests) for rest in rests))

    def _can_have_room(self, model: Model) -> bool:
        """Whether it would fit if all that may leave had left; else others take its room."""
        return self._fits(model, without=[held for held in self._held if not held.is_pinned])

    def _refusal(self, model: Model) -> Reason:
        """Why it can't ever be loaded beside what stays."""
        room = self._room
        staying = [m for m in self._models if m is not model and m.is_pinned]
        staying = [m for m in staying if m.state != "off" or m.is_wanted]
        beside = [" beside ", *named(staying)] if staying else []
        places = sum(m.takes_place for m in staying)
        if room.max_loaded and model.takes_place and places >= room.max_loaded:
            most = f": at most {room.max_loaded} may be"
            return reason(f"model {model.name} can't be loaded", *beside, most)
        need = model.need_bytes if staying else model.alone_bytes
        lefts = [(wanted, left, " of GPU memory") for wanted, left in self._on_each(model, staying)]
        if room.limit_bytes is not None:
            lefts.insert(0, (need, room.limit_bytes - sum(map(_host, staying)), ""))
        for wanted, left, what in lefts:
            if wanted > max(0, left):
                may = f"{size_text(max(0, left))} may be used"
                sizes = f"it needs {size_text(wanted)}{what}, {may}"
                return reason(f"model {model.name} is too large: {sizes}", *beside)
        return NO_REASON

    def _on_each(self, model: Model, staying: Sequence[Model]) -> Iterable[tuple[int, int]]:
        """What it needs of each GPU and of all, and what those that stay leave there. Of these,
        those that are spread and off will lie where there is room."""
        limits = self._room.gpu_limits or ()
        spread = [other for other in staying if other.is_spread and other.state == "off"]
        lefts = gpu_lefts(limits, [other.gpu_bytes for other in staying if other not in spread])
        if not model.is_spread:
            yield from zip(model.gpu_bytes, lefts, strict=False)
        if limits:
            yield _on_gpus(model), sum(lefts) - sum(map(_on_gpus, spread))

    # --- outcomes

    def _begin(self, model: Model) -> None:
        self._start.append(model.name)
        laid = self._laid(model)
        if laid is not model:
            self._shares[model.name] = laid.gpu_bytes
        self._held.append(laid)
        self._say(model, "is loading")

    def _make_room(self, model: Model, victims: Iterable[Model]) -> None:
        for victim in victims:
            self._leave.append((victim.name, model.name))
            self._leaving.append(victim)

    def _block(self, model: Model, *why: str) -> None:
        """It waits, and the younger ones with it if it is only engines that take its room."""
        if self._first_blocked is None and model.num_waiting and self._can_have_room(model):
            self._first_blocked = model
        self._say(model, *why)

    def _say(self, model: Model, *what: str) -> None:
        self._reasons[model.name] = reason(f"model {model.name} ", *what)

    def _lack(self, model: Model) -> list[str]:
        """What there isn't enough of, and who has it."""
        if not self._has_memory(model, self._held):
            return ["waits for memory: ", *self._taken(model, self._room.budget_bytes, _host)]
        short = self._short_gpu(model, self._held)
        if short is not None:
            return ["waits for GPU memory: ", *self._taken(model, *short)]
        return ["waits for a place: ", *self._holders(lambda m: m.takes_place)]

    def _taken(self, model: Model, budget: int, of: Callable[[Model], int]) -> list[str]:
        if self._can_have_room(model):
            return self._holders(of)
        free = max(0, budget - sum(map(of, self._held)))
        return [f"it needs {size_text(of(model))}, {size_text(free)} are free"]

    def _holders(self, has: Callable[[Model], int]) -> list[str]:
        """Who has what is waited for; if some leave already, only they."""
        leaving = [m for m in self._leaving if has(m)]
        return holders(leaving or [m for m in self._held if has(m)], self._leaving)


def gpu_lefts(limits: Sequence[int], fixed: Sequence[tuple[int, ...]]) -> list[int]:
    """What is left of each GPU beside those that lie there."""
    used = (sum(one[index] for one in fixed if index < len(one)) for index in range(len(limits)))
    return [max(0, limit - taken) for limit, taken in zip(limits, used, strict=True)]


def _host(model: Model) -> int:
    return model.need_bytes


def _on_gpu(index: int) -> Callable[[Model], int]:
    return lambda model: model.gpu_bytes[index] if index < len(model.gpu_bytes) else 0


def _on_gpus(model: Model) -> int:
    return sum(model.gpu_bytes)
