"""The whole server with two web processes: reconnects that land on the other one, Stop, ends."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from inference.queues.contract import QueueConfig
from tests.app_client import AppClient
from tests.edge.cases.families import FAMILIES
from tests.edge.cases.said import Ask
from tests.edge.resumable.reading import cuts_of
from tests.live.api_streams import StreamClient, events_in, last_id, text_of
from tests.live.raw_socket import RawSocket
from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
START_S = 200.0  # a busy machine starts two web processes
FREE_S = 25.0  # for "within a second", on a busy machine; without Stop it would be 30 s and more
ENV = {
    "LLAMAWEB_WEB_WORKERS": "2",
    "LLAMAWEB_MOCK_DELAY_MS": "5",
    "LLAMAWEB_MOCK_PREFILL_MS_PER_TOKEN": "0.7",
    "LLAMAWEB_ENGINE_CONTEXT": "65536",
    "LLAMAWEB_ENGINE_SLOTS": "1",
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("live"), env=ENV) as stack:
        stack.wait_ready(START_S)
        stack.create_key("alice")
        yield stack


@pytest.fixture(scope="module")
def streams(stack: Stack) -> StreamClient:
    """alice's programs."""
    return StreamClient(stack, stack.create_key("alice"))


@pytest.fixture(scope="module")
def alice(stack: Stack) -> AppClient:
    client = AppClient(stack.base_url)
    client.sign_in("alice", "correct horse alice battery")
    return client


def connect(stack: Stack, alice: AppClient, *chats: str, **options: Any) -> RawSocket:
    socket = RawSocket(stack.base_url, alice.cookie_header(), **options)
    assert socket.status == 101
    socket.begin(*chats)
    return socket


def is_served_by(pid: int, socket: RawSocket) -> bool:
    """Whether the process `pid` is at the other end."""
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.NoSuchProcess:
        return False
    return any(each.raddr and each.raddr.port == socket.port for each in connections)


def server_of(stack: Stack, socket: RawSocket) -> int:
    """The pid of the web process at the other end."""
    pids = [int(process.pid) for process in stack.processes("web")]
    return next(pid for pid in pids if is_served_by(pid, socket))


def connect_to_other(stack: Stack, alice: AppClient, pid: int, *chats: str, **options: Any) -> Any:
    """A connection that another process than `pid` serves."""
    held = []
    try:
        for _ in range(200):
            raw = RawSocket(stack.base_url, alice.cookie_header(), **options)
            if not is_served_by(pid, raw):
                raw.begin(*chats)
                return raw
            held.append(raw)
    finally:
        for raw in held:
            raw.drop()
    raise AssertionError("the other process takes no connections")


def start(socket: RawSocket, text: str) -> dict[str, Any]:
    """A new conversation with a first message; ids."""
    reply = socket.act("turn.start", parts=[{"type": "text", "text": text}])
    assert reply["error"] is None
    ids: dict[str, Any] = reply["result"]
    chat_id = ids["conversation_id"]
    socket.send("open", conversation_id=chat_id)
    socket.see(lambda view: chat_id in view.chats)
    ids["generation_id"] = socket.view.chats[chat_id]["turns"][ids["turn_id"]]["generation_id"]
    return ids


def stored(alice: AppClient, ids: dict[str, Any]) -> dict[str, Any]:
    status, body = alice.call("GET", f"conversations/{ids['conversation_id']}")
    assert status == 200
    found: dict[str, Any] = next(m for m in body["messages"] if m["id"] == ids["answer_id"])
    return found


def ended(socket: RawSocket, alice: AppClient, ids: dict[str, Any]) -> str:
    """Wait for the stored answer; its text, which is that of the stream if that was seen to its
    end."""
    chat_id, answer_id, gid = (
        ids["conversation_id"], ids["answer_id"], ids["generation_id"],
    )  # fmt: skip
    socket.see(
        lambda view: (
            chat_id in view.chats
            and view.chats[chat_id]["messages"][answer_id]["state"] != "streaming"
        )
    )
    text = "".join(part["text"] for part in stored(alice, ids)["parts"])
    seen = socket.view.texts.get(gid, "")
    assert seen == text if gid in socket.view.ends else text.startswith(seen)
    shown = socket.view.chats[chat_id]["messages"][answer_id]["parts"]
    assert "".join(part["text"] for part in shown) == text
    assert "\ufffd" not in text
    return text


def test_a_reconnect_in_the_middle_lands_on_the_other_process(
    stack: Stack, alice: AppClient
) -> None:
    text = "ok 😺 漢字 é " * 100
    socket = connect(stack, alice)
    ids = start(socket, text)
    gid, chat_id = ids["generation_id"], ids["conversation_id"]
    socket.see(lambda view: len(view.texts.get(gid, "")) > 100)
    pid = server_of(stack, socket)
    socket.drop()
    other = connect_to_other(stack, alice, pid, chat_id, view=socket.view)
    at = len(socket.view.texts[gid])
    other.see(lambda view: len(view.texts[gid]) > at)
    assert gid not in other.view.ends
    second_tab = connect(stack, alice, chat_id)
    answer = ended(other, alice, ids)
    assert text.strip() in answer
    assert ended(second_tab, alice, ids) == answer
    streams = [frame for frame in other.frames if frame["type"] == "stream"]
    assert not any(frame["reset"] for frame in streams)
    other.drop()
    second_tab.drop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_web_process_that_ends_in_the_middle(
    stack: Stack, alice: AppClient, number: signal.Signals
) -> None:
    socket = connect(stack, alice)
    ids = start(socket, "é😺 " * 200)
    gid = ids["generation_id"]
    socket.see(lambda view: len(view.texts.get(gid, "")) > 20)
    pid = server_of(stack, socket)
    psutil.Process(pid).send_signal(number)
    assert socket.closed() == (1012 if number == signal.SIGTERM else None)
    back = connect_to_other(stack, alice, pid, ids["conversation_id"], view=socket.view)
    assert "é😺" in ended(back, alice, ids)
    streams = [frame for frame in back.frames if frame["type"] == "stream"]
    assert not any(frame["reset"] for frame in streams)
    back.drop()
    wait_for("two web processes", lambda: len(stack.processes("web")) == 2, 30)


@pytest.mark.parametrize("when", ["queued", "prefill", "decode"])
def test_stop_frees_the_slot(stack: Stack, alice: AppClient, when: str) -> None:
    """Case C07. The only slot; whoever stops it lets the next one go on."""
    socket = connect(stack, alice)
    blocker = start(socket, "x" * 6000) if when == "queued" else None
    ids = start(socket, "y" * (30_000 if when == "prefill" else 6000))
    gid = ids["generation_id"]
    if when == "queued":
        socket.see(lambda view: gid in view.places)
    elif when == "prefill":
        socket.see(lambda _view: any(frame.get("prefill") for frame in socket.frames))
    else:
        socket.see(lambda view: view.texts.get(gid))
    began_ts = time.monotonic()
    reply = socket.act("turn.stop", turn_id=ids["turn_id"])
    assert reply["result"]["was_stopped"]
    socket.see(lambda view: gid in view.ends, FREE_S)
    assert time.monotonic() - began_ts < FREE_S
    assert socket.view.ends[gid]["state"] == "cancelled"
    if blocker is not None:
        assert blocker["generation_id"] not in socket.view.ends
        socket.act("turn.stop", turn_id=blocker["turn_id"])
    after = start(socket, "z")
    socket.see(lambda view: view.texts.get(after["generation_id"]), FREE_S)
    chat_id, answer_id = ids["conversation_id"], ids["answer_id"]
    socket.see(lambda view: view.chats[chat_id]["messages"][answer_id]["state"] == "stopped")
    assert (stored(alice, ids)["prompt_tokens"] > 0) == (when != "queued")
    ended(socket, alice, after)
    socket.drop()


def test_an_api_stream_goes_on_when_its_web_process_is_killed(
    stack: Stack, streams: StreamClient
) -> None:
    """Taken up behind the last event that came, and from the last byte."""
    began = streams.begin("talk::mock", "0123456789é😺" * 60)
    events = began.read_events(20)
    psutil.Process(began.server_pid()).kill()
    events += began.read_events()  # what had been sent
    behind = streams.take_up(last=last_id(events))
    assert events + behind.read_events() == streams.take_up(name="talk::mock").read_events()
    rest = streams.take_up(name="talk::mock", offset=len(events)).read_events()
    assert rest.endswith(b"data: [DONE]\n\n")
    assert text_of(events + rest) == "0123456789é😺" * 60
    wait_for("two web processes", lambda: len(stack.processes("web")) == 2, 30)


def test_an_api_stream_without_a_client_ends_with_delete(streams: StreamClient) -> None:
    """It holds the only slot until then."""
    began = streams.begin("long", "x" * 8000)
    began.read_events(2)
    began.close()
    (found,) = streams.lookup("long")
    assert not found["is_done"]
    time.sleep(QueueConfig().reader_lease_s + 1)  # longer than it would live without its name
    (found,) = streams.lookup("long")
    assert not found["is_done"]
    streams.delete("long")
    assert streams.lookup("long") == []
    after = streams.begin("short", "hello")
    assert text_of(after.read_events()) == "hello"


SAID = 'Look 😺:\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
GAP = {"input_prefix": "def f(", "input_suffix": "):", "prompt": SAID, "stream": True}
MORE: dict[str, dict[str, Any]] = {
    "chat": {"tools": [{"type": "function", "function": {"name": "f"}}], "logprobs": True},
    "messages": {"tools": [{"name": "f", "input_schema": {}}]},
    "native": {"return_tokens": True, "return_progress": True},
}
STREAMS = {
    f.name: (f.path, f.body(Ask(SAID), stream=True) | MORE.get(f.name, {})) for f in FAMILIES
}
STREAMS["infill"] = ("/infill", GAP)


@pytest.mark.parametrize("name", STREAMS)
def test_every_stream_goes_on_in_the_other_process(streams: StreamClient, name: str) -> None:
    """Cut at every event, it is taken up behind the event's id, and from its last byte."""
    began = streams.ask(name, *STREAMS[name])
    other = streams.other_than(began.server_pid())
    whole = events_in(began.read())
    for event_id, before in cuts_of(whole):
        if ":" in event_id:  # those of Responses are numbers, which find a stored one only
            rest = other.get("/v1/stream", Last_Event_ID=event_id)
            assert before + events_in(rest) == whole, event_id
    mark = b"\n\n" if b"\n\n" in whole else b"\n"
    ends = [index + len(mark) for index in range(len(whole)) if whole.startswith(mark, index)]
    assert len(ends) > 10
    for end in (0, *ends):
        rest = other.get(f"/v1/stream?conv_id={name}&from={end}")
        assert whole[:end] + events_in(rest) == whole, end
    other.close()


def test_a_stored_response_goes_on_in_the_other_process(streams: StreamClient) -> None:
    """Cut at every event, it is taken up behind the event's number."""
    began = streams.ask("", "/v1/responses", {"input": SAID, "stream": True})
    other = streams.other_than(began.server_pid())
    whole = events_in(began.read())
    (response_id,) = set(re.findall(rb"resp_\w+", whole.partition(b"\n\n")[0]))
    cuts = cuts_of(whole)
    assert [int(number) for number, _ in cuts] == list(range(len(cuts)))
    path = f"/v1/responses/{response_id.decode()}?stream=true"
    for number, before in cuts:
        assert before + events_in(other.get(f"{path}&starting_after={number}")) == whole, number
    assert events_in(other.get(path)) == whole
    other.close()
