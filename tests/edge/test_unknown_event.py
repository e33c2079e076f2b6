"""An event of a later version gives no step, and what follows it comes as ever."""

from __future__ import annotations

from inference.edge.instruments import RequestMeter
from inference.edge.steps import Begin, End, Piece, Step, Steps
from inference.protocol.events import Delta, Entry, Event, Finished, Started, Unknown


def test_unknown_events_give_no_step() -> None:
    events: list[Event] = [
        Unknown("A"),
        Started(3, 0),
        Unknown("B"),
        Delta("hi", (1,)),
        Unknown("C"),
        Finished("stop"),
    ]
    steps, meter, found = Steps(), RequestMeter("m"), list[Step]()
    for seq, event in enumerate(events):
        meter.record(event)
        found += steps.feed(Entry(seq, event))
    assert [type(step) for step in found] == [Begin, Piece, End]
    assert steps.is_over
