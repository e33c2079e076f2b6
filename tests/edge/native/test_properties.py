"""/props and /slots: what is told, and to whom; what isn't possible is said so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from inference.edge.native import routes
from inference.protocol.events import Failed, Finished, Result
from inference.protocol.requests import DescribeRequest
from inference.protocol.results import DescribeResult
from inference.protocol.slot_uses import SlotUse, encode_slot_uses
from inference.queues.contract import SUPERVISOR_ID, EngineStatus
from tests.edge.wire import Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
DESCRIBED = DescribeResult("{{ x }}", ("system", "tools", "tool_calls"), "<s>", "</s>")
MINE = SlotUse("decode", "user:7", 100, 60, 100, 5)
CAROLS = SlotUse("prefill", "user:8", 50, 10, 30)


async def get(wire: Wire, path: str) -> tuple[int, Any]:
    """Status and body."""
    response = await wire.client.get(path)
    return response.status_code, response.json()


async def test_props(says: Says, wire: Wire) -> None:
    fake = says(Result(DESCRIBED), Finished("stop"))
    status, body = await get(wire, "/props")
    assert status == 200
    settings = body.pop("default_generation_settings")
    assert (settings["n_ctx"], settings["params"]["top_k"]) == (8192, 40)
    assert "grammar" not in settings["params"]
    build = body.pop("build_info")
    assert build.startswith("llama-cpp-python-")
    assert body == {
        "total_slots": 4,
        "model_alias": "tiny",
        "model_path": "tiny",
        "model_ftype": "",
        "modalities": {"vision": False, "video": False, "audio": False},
        "media_marker": "",
        "endpoint_slots": True,
        "endpoint_props": False,
        "endpoint_metrics": True,
        "cors_proxy_enabled": False,
        "ui": True,
        "ui_settings": {},
        "chat_template": "{{ x }}",
        "chat_template_caps": {
            "supports_string_content": True,
            "supports_typed_content": False,
            "supports_tools": True,
            "supports_tool_calls": True,
            "supports_system_role": True,
            "supports_object_arguments": False,
        },
        "bos_token": "<s>",
        "eos_token": "</s>",
        "is_sleeping": False,
    }
    assert isinstance(fake.submitted[0], DescribeRequest)


async def test_props_dont_wake_a_model(says: Says, wire: Wire) -> None:
    fake = says(Result(DESCRIBED), Finished("stop"))
    fake.max_context = 0
    _, body = await get(wire, "/props?model=tiny")
    assert (body["is_sleeping"], body["chat_template"]) == (True, "")
    assert fake.submitted == []


async def test_props_of_a_model_of_another_server(says: Says, wire: Wire) -> None:
    says(Failed("not_supported", "another server's"))
    status, body = await get(wire, "/props")
    assert (status, body["chat_template"], body["is_sleeping"]) == (200, "", False)


async def test_props_of_no_model(fake: FakeInference, wire: Wire) -> None:
    status, body = await get(wire, "/props?model=gpt-99")
    assert (status, body["error"]["type"]) == (404, "not_found_error")


@pytest.fixture
def slots(fake: FakeInference, monkeypatch: pytest.MonkeyPatch) -> FakeInference:
    """An engine with four slots, of which alice and carol have one each."""

    async def engine_list(model: str) -> tuple[EngineStatus, ...]:
        info = {"max_context": 8192, "slots": encode_slot_uses([MINE, CAROLS])}
        return (
            EngineStatus(SUPERVISOR_ID, "stopped", 0, 0, 0.1, False, {}),
            EngineStatus("old", "ready", 0, 0, 60.0, False, info),
            EngineStatus("e1", "ready", 1, 2, 0.1, False, info),
        )

    monkeypatch.setattr(routes.api, "engine_list", engine_list)
    return fake


def look_as(monkeypatch: pytest.MonkeyPatch, *, administrator: bool) -> None:
    """Whether alice's key administers models."""

    def is_administrator(caller: object, permission: str) -> bool:
        return administrator

    monkeypatch.setattr(routes, "is_administrator", is_administrator)


async def test_slots_tell_of_ones_own_requests_only(
    slots: FakeInference, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_as(monkeypatch, administrator=False)
    status, bodies = await get(wire, "/slots")
    assert status == 200
    shared = {"n_ctx": 8192, "speculative": False}
    assert bodies == [
        {
            **shared,
            "id": 0,
            "is_processing": True,
            "n_prompt_tokens": 100,
            "n_prompt_tokens_processed": 40,
            "n_prompt_tokens_cache": 60,
            "next_token": [{"has_next_token": True, "n_remain": -1, "n_decoded": 5}],
        },
        {**shared, "id": 1, "is_processing": True},
        {**shared, "id": 2, "is_processing": False},
        {**shared, "id": 3, "is_processing": False},
    ]


async def test_administrators_see_what_all_slots_do(
    slots: FakeInference, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_as(monkeypatch, administrator=True)
    _, bodies = await get(wire, "/slots")
    assert [body.get("n_prompt_tokens") for body in bodies] == [100, 50, None, None]
    assert "user:8" not in str(bodies)


async def test_a_free_slot_may_be_insisted_on(
    slots: FakeInference, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_as(monkeypatch, administrator=False)
    assert (await get(wire, "/slots?fail_on_no_slot=1"))[0] == 200
    slots.num_slots = 2
    status, body = await get(wire, "/slots?fail_on_no_slot=1")
    assert (status, body["error"]["message"]) == (503, "no slot available")
    assert (await get(wire, "/slots"))[0] == 200


@pytest.mark.parametrize("action", ["save", "restore", "erase"])
async def test_slots_are_nobodys_files(fake: FakeInference, wire: Wire, action: str) -> None:
    status, body = await wire.post(f"/slots/0?action={action}", filename="x")
    assert (status, body["error"]["type"]) == (501, "not_supported_error")


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/slots/x?action=save", "id_slot"),
        ("/slots/-1?action=save", "id_slot"),
        ("/slots/0", "action"),
        ("/slots/0?action=explode", "action"),
    ],
)
async def test_wrong_acts_on_slots(fake: FakeInference, wire: Wire, path: str, param: str) -> None:
    status, body = await wire.post(path)
    assert (status, body["error"]["param"]) == (400, param)


@pytest.mark.parametrize("path", ["/props", "/v1/audio/transcriptions", "/audio/transcriptions"])
async def test_what_is_not_possible_here(fake: FakeInference, wire: Wire, path: str) -> None:
    status, body = await wire.post(path)
    assert (status, body["error"]["type"]) == (501, "not_supported_error")


async def test_a_multipart_body_is_not_read_as_json(fake: FakeInference, wire: Wire) -> None:
    response = await wire.client.post("/v1/audio/transcriptions", data={"model": "whisper"})
    assert response.status_code == 501


@pytest.mark.parametrize("path", ["/completion", "/tokenize", "/slots/0", "/infill"])
async def test_another_method(fake: FakeInference, wire: Wire, path: str) -> None:
    response = await wire.client.get(path)
    assert (response.status_code, response["Allow"]) == (405, "POST")
    assert response.json()["error"]["code"] == 405
