"""The hub in the administration: search, choose, and the download that comes of it."""

from __future__ import annotations

import hashlib
import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from inference.admin import hub_lines
from inference.admin.hub_lines import read_left
from inference.models import ModelConfig, ModelFile
from inference.protocol.devices import Device, encode_devices
from inference.queues.contract import SUPERVISOR_ID, Beat
from inference.queues.memory import MemoryQueue
from inference.registry import hub as registry_hub
from inference.registry import hub_header
from inference.supervisor.budget import Need
from inference.supervisor.gpus import Gpus
from inference.supervisor.placement import Room
from llamaweb.accounts.models import AuditEvent, User
from tests.admin.conftest import HOSTILE, client_of
from tests.registry.gguf_files import model, values, whole
from tests.registry.hub_source import Hub, entry, found

pytestmark = pytest.mark.django_db
HUB = "/admin/inference/modelconfig/hub/"
START = f"{HUB}start/"
MIB = 1 << 20
LARGE = whole(values(**{"llama.context_length": 32_768, "llama.feed_forward_length": 256}))


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    hub_header._read.cache_clear()


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How much memory this machine lends to engines, to be changed."""
    found: dict[str, Any] = {"limit": 64 << 30}
    monkeypatch.setattr(hub_lines, "read_room", lambda *_: Room(0, found["limit"]))
    return found


def text_of(client: Client, **query: str) -> str:
    response = client.get(HUB, query)
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def fits(page: str) -> dict[str, str]:
    """The words beside each quantization."""
    rows = re.findall(
        r"<strong>(.*?)</strong>.*?lw-choice-fit\" data-fit=\"\w+\">(.*?)<", page, re.S
    )
    return dict(rows)


def proposed(page: str) -> str:
    (path,) = re.findall(r'name="path" value="([^"]*)" required checked', page)
    return str(path)


def sized(path: str, size: int) -> dict[str, Any]:
    """A file of a listing that says it is `size` bytes."""
    return entry(path, lfs={"oid": hashlib.sha256(path.encode()).hexdigest(), "size": size})


def publish(hub: Hub, **sizes: int) -> None:
    """Quantizations of one model by name, of so many MiB."""
    hub.listed = [sized(f"t-{quant}.gguf", size * MIB) for quant, size in sizes.items()]
    for quant, size in sizes.items():
        body = LARGE + bytes(3 * MIB if size > 2 else 0)
        hub.source.files[hub.path_of(f"t-{quant}.gguf")] = body
    hub.publish()


def test_searching(admin: Client, hub: Hub) -> None:
    hub.finds(found(hub.repo), found("bob/secret-GGUF", gated="manual", downloads=1))
    page = text_of(admin, q="tiny")
    assert f'href="{HUB}?repo=ada%2Ftiny-GGUF"' in page
    assert "268M parameters · gemma3 · 1,234 downloads · 56 likes · 2026-11-01" in page
    assert page.count("gated") == 1
    assert hub.searches[0]["search"] == ["tiny"]
    hub.finds()
    assert "Nothing was found." in text_of(admin, q="tiny")
    assert "lw-found" not in text_of(admin)
    assert len(hub.searches) == 2


def test_a_repository_is_found_by_its_whole_name(admin: Client, hub: Hub) -> None:
    hub.add(**{"t-Q4_K_M.gguf": model()})
    assert "<strong>Q4_K_M</strong>" in text_of(admin, q=f"{hub.repo}:Q8_0")
    assert hub.searches == []


def test_quantizations_with_sizes_shards_and_encoder(
    admin: Client, hub: Hub, room: dict[str, Any]
) -> None:
    hub.listed = [
        entry("t-Q8_0-00001-of-00002.gguf", LARGE),
        entry("t-Q8_0-00002-of-00002.gguf", b"x" * 5000),
        entry("t-Q6_K-00001-of-00002.gguf", LARGE),
        entry("mmproj-F16.gguf", b"x" * 2048),
    ]
    hub.source.files[hub.path_of("t-Q8_0-00001-of-00002.gguf")] = LARGE
    hub.publish()
    page = text_of(admin, repo=hub.repo)
    assert "2 files · and an encoder of 2.0\xa0KB · needs about" in page
    assert fits(page) == {
        "Q8_0": "fits",
        "Q6_K": "the repository lacks t-Q6_K-00002-of-00002.gguf",
    }
    assert re.search(r'value="t-Q6_K-00001-of-00002.gguf" required disabled', page)
    assert 'value="tiny"' in page
    assert "A model may take 64.0\xa0GB of memory here." in page


def test_whether_they_fit(admin: Client, hub: Hub, room: dict[str, Any], settings: Any) -> None:
    settings.ENGINE_SLOTS = 4
    publish(hub, Q2_K=100, Q4_K_M=200, Q8_0=1500)
    page = text_of(admin, repo=hub.repo)
    assert fits(page) == {"Q2_K": "fits", "Q4_K_M": "fits", "Q8_0": "fits"}
    assert proposed(page) == "t-Q4_K_M.gguf"
    (need,) = re.findall(r"200\.0\xa0MB · needs about (\d+)\.\d\xa0MB", page)
    room["limit"] = (int(need) - 2) * MIB
    page = text_of(admin, repo=hub.repo)
    assert fits(page)["Q2_K"] == "fits"
    assert re.fullmatch(r"fits with a context of \d,\d{3}", fits(page)["Q4_K_M"])
    assert fits(page)["Q8_0"].startswith("too large by 1.2\xa0GB")
    assert proposed(page) == "t-Q2_K.gguf"
    assert len([a for a in hub.source.asked if "range" in a]) == 1  # one header for all
    room["limit"] = 0
    assert proposed(text_of(admin, repo=hub.repo)) == "t-Q2_K.gguf"
    room["limit"] = None
    assert set(fits(text_of(admin, repo=hub.repo)).values()) == {"fits"}


def test_pinned_models_stay(admin: Client, hub: Hub, room: dict[str, Any], settings: Any) -> None:
    settings.MOCK_MEMORY_MIB = 2048
    ModelConfig.objects.create(name="stays", engine_class="mock", wanted="loaded", is_pinned=True)
    publish(hub, Q4_K_M=200)
    room["limit"] = 2148 * MIB
    page = text_of(admin, repo=hub.repo)
    assert "A model may take 100.0\xa0MB of memory here; pinned ones take 2.0\xa0GB." in page
    assert fits(page)["Q4_K_M"].startswith("too large by")


def test_what_can_not_be_read_is_said(admin: Client, hub: Hub, room: dict[str, Any]) -> None:
    hub.add(**{"t-Q4_K_M.gguf": b"x" * 5000})
    page = text_of(admin, repo=hub.repo)
    assert fits(page) == {"Q4_K_M": "nobody can tell whether it fits"}
    assert "this is not a GGUF file" in page


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (503, "can't be asked: the hub is in trouble (503)"),
        (429, "can't be asked: the hub has had too many requests"),
        (404, "ada/tiny-GGUF: there is no such repository"),
        (401, "set LLAMAWEB_HUB_TOKEN"),
    ],
)
def test_errors_of_the_hub(admin: Client, hub: Hub, status: int, reason: str) -> None:
    hub.source.status = status
    assert reason in text_of(admin, repo=hub.repo)


def test_a_hub_that_is_away_gated_or_empty(admin: Client, hub: Hub, settings: Any) -> None:
    hub.listed = [entry("README.md")]
    hub.publish()
    assert "ada/tiny-GGUF has no GGUF model." in text_of(admin, repo=hub.repo)
    hub.publish(gated="auto")
    assert "LLAMAWEB_HUB_TOKEN" in text_of(admin, repo=hub.repo)
    settings.HUB_URL = "http://127.0.0.1:1"
    for query in ({"q": "x"}, {"repo": hub.repo}):
        page = text_of(admin, **query)
        assert "The hub http://127.0.0.1:1 can't be asked: the server can't be reached" in page
    settings.OUTBOUND_ALLOW = ()
    assert "can't be asked" in text_of(admin, q="x")


def test_names_of_the_hub_are_no_markup(admin: Client, hub: Hub) -> None:
    page = admin.get(HUB, {"q": HOSTILE}).content.decode()
    assert HOSTILE not in page
    page = admin.get(HUB, {"repo": HOSTILE}).content.decode()
    assert HOSTILE not in page
    assert "is named user/repository" in page


def start(admin: Client, hub: Hub, **changes: str) -> Any:
    form = {"repo": hub.repo, "path": "t-Q4_K_M.gguf", "name": "far", "load": "on"} | changes
    return admin.post(START, form)


def test_a_download_starts_and_is_watched(
    admin: Client,
    hub: Hub,
    room: dict[str, Any],
    sent: list[int],
    django_capture_on_commit_callbacks: Any,
) -> None:
    publish(hub, Q4_K_M=200)
    with django_capture_on_commit_callbacks(execute=True):
        response = start(admin, hub)
    file = ModelFile.objects.get()
    assert response["Location"] == f"/admin/inference/modelfile/{file.pk}/change/"
    assert (file.config_name, file.load_when_ready, file.config_context_len) == ("far", True, 0)
    assert (file.expected_size, sent) == (200 * MIB, [file.pk])
    assert [event.action for event in AuditEvent.objects.all()] == ["model_file.download_started"]
    page = admin.get(response["Location"]).content.decode()
    assert f'data-download="{file.pk}" data-open' in page
    assert "/act/pause/" in page


def test_the_context_that_was_shown_is_kept(admin: Client, hub: Hub, room: dict[str, Any]) -> None:
    publish(hub, Q4_K_M=200)
    (need,) = re.findall(r"needs about (\d+)\.\d\xa0MB", text_of(admin, repo=hub.repo))
    room["limit"] = (int(need) - 2) * MIB
    page = text_of(admin, repo=hub.repo)
    shown = dict(re.findall(r'name="(context_len:[^"]*)" value="(\d+)"', page))
    ((field, length),) = shown.items()
    assert field == "context_len:t-Q4_K_M.gguf"
    assert fits(page)["Q4_K_M"] == f"fits with a context of {int(length):,}"
    assert 1024 <= int(length) < 8192
    room["limit"] = 64 << 30
    del hub.source.files[hub.path_of("t-Q4_K_M.gguf")]  # nobody can look again
    hub_header._read.cache_clear()
    start(admin, hub, **shown)
    assert ModelFile.objects.get().config_context_len == int(length)


@pytest.mark.parametrize("length", ["-1", "x", "99999999999", ""])
def test_what_can_be_no_context(admin: Client, hub: Hub, room: dict[str, Any], length: str) -> None:
    publish(hub, Q4_K_M=200)
    response = start(admin, hub, **{"context_len:t-Q4_K_M.gguf": length})
    assert "context_len: " in response.content.decode()
    assert not ModelFile.objects.exists()


def test_a_repository_of_too_many_models(
    admin: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_hub, "MAX_CHOICES", 1)
    publish(hub, Q4_K_M=200, Q8_0=300)
    assert "has 2 models, at most 1 are shown" in text_of(admin, repo=hub.repo)
    response = start(admin, hub)
    assert "has 2 models, at most 1 are shown" in html.unescape(response.content.decode())
    assert not ModelFile.objects.exists()


@pytest.mark.parametrize(
    ("kind", "has_gpu", "gpu_mib", "is_shared"),
    [
        ("gpu", True, 4096 - 256 - 512, False),
        ("integrated", True, None, True),
        ("other", False, None, False),
    ],
)
def test_what_gpus_there_are(
    settings: Any, kind: Any, has_gpu: bool, gpu_mib: int | None, is_shared: bool
) -> None:
    gpus = Gpus()
    gpus.devices = (Device("d", "D", kind, 4096 * MIB, 4096 * MIB),)
    left = read_left(gpus)
    assert (left.has_gpu, left.memory.is_shared) == (has_gpu, is_shared)
    assert left.memory.gpu_bytes == (None if gpu_mib is None else gpu_mib * MIB)
    settings.GPU_LAYERS = -1
    assert left.serving.gpu_layers == (-1 if has_gpu else 0)


def test_gpus_are_those_that_the_supervisor_tells_of(
    admin: Client, hub: Hub, queue: MemoryQueue, settings: Any
) -> None:
    settings.GPU_LAYERS, settings.ENGINE_MEMORY_MIB = -1, 64 << 10
    ModelConfig.objects.create(name="m", engine_class="mock", wanted="auto")
    publish(hub, Q4_K_M=2000)
    layered = whole(values(**{"llama.feed_forward_length": 256}), {"blk.0.w": 1024})
    hub.source.files[hub.path_of("t-Q4_K_M.gguf")] = layered + bytes(3 * MIB)
    words = fits(text_of(admin, repo=hub.repo))["Q4_K_M"]
    assert words == "fits"  # nobody has told of a GPU: its memory isn't counted
    card = Device("CUDA0", "a card", "gpu", 2048 * MIB, 2048 * MIB)
    queue.beat("m", Beat(SUPERVISOR_ID, "stopped", info={"devices": encode_devices([card])}))
    page = text_of(admin, repo=hub.repo)
    assert fits(page)["Q4_K_M"].startswith("too large by")
    assert "on the GPU" in page
    queue.beat("m", Beat(SUPERVISOR_ID, "stopped", info={"devices": encode_devices([])}))
    page = text_of(admin, repo=hub.repo)
    assert fits(page)["Q4_K_M"] == "fits"  # without one all of it is the host's
    assert "on the GPU" not in page


def test_pinned_models_take_their_part_of_each_gpu(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = Gpus()
    gpus.devices = tuple(Device(f"g{n}", "", "gpu", 8192 * MIB, 8192 * MIB) for n in (0, 1))
    each = 8192 - 512 - 512  # a reserve, and what the driver takes
    assert read_left(gpus).memory.gpu_bytes == 2 * each * MIB
    ModelConfig.objects.create(name="stays", engine_class="mock", is_pinned=True)
    need = Need(0, 0, gpu=(8000 * MIB, 0))
    monkeypatch.setattr(hub_lines, "read_need", lambda *_: need)
    assert read_left(gpus).memory.gpu_bytes == each * MIB


def test_pinned_models_without_shares_leave_the_rest_of_all(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = Gpus()
    gpus.devices = tuple(Device(f"g{n}", "", "gpu", 8192 * MIB, 8192 * MIB) for n in (0, 1))
    each = 8192 - 512 - 512
    needs = {
        "first": Need(0, 0, gpu=(8000 * MIB, 0)),
        "spread": Need(0, 0, (900 * MIB, 900 * MIB), True),
    }
    for name in needs:
        ModelConfig.objects.create(name=name, engine_class="mock", is_pinned=True)
    monkeypatch.setattr(hub_lines, "read_need", lambda config, _gpus: needs[config.name])
    assert read_left(gpus).memory.gpu_bytes == (each - 1800) * MIB


def test_vectors_count_where_budgets_are_kept(settings: Any) -> None:
    settings.ENGINE_MEMORY_MIB = settings.ENGINE_GPU_MEMORY_MIB = 0
    memory = read_left(Gpus()).memory
    assert (memory.host_vectors, memory.gpu_vectors) == (False, False)
    settings.ENGINE_GPU_MEMORY_MIB = 4096
    assert read_left(Gpus()).memory.gpu_vectors
    ModelConfig.objects.create(name="stays", engine_class="mock", is_pinned=True)
    settings.MOCK_MEMORY_MIB = 1
    assert read_left(Gpus()).memory.host_vectors


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "taken"}, "there is a model of this name already"),
        ({"name": "a b"}, "letters, digits and"),
        ({"path": ""}, "Choose a quantization."),
        ({"path": "u-Q4_K_M.gguf"}, "it isn't there any more"),
        ({"path": "s-00001-of-00002.gguf"}, "lacks s-00002-of-00002.gguf"),
        ({"repo": "ada/none"}, "ada/none: the hub"),
        ({"repo": "x"}, "is named user/repository"),
    ],
)
def test_what_can_not_be_started(
    admin: Client, hub: Hub, room: dict[str, Any], changes: dict[str, str], reason: str
) -> None:
    ModelConfig.objects.create(name="taken", engine_class="mock")
    hub.source.at["/api/models/ada/none"] = (400, {})
    publish(hub, Q4_K_M=200, Q2_K=100)
    hub.listed.append(entry("s-00001-of-00002.gguf"))
    hub.publish()
    response = start(admin, hub, **changes)
    page = html.unescape(response.content.decode())
    assert response.status_code == 200
    assert reason in page
    if "repo" not in changes:
        assert f'value="{changes.get("name", "far")}"' in page
    assert not ModelFile.objects.exists()
    assert not AuditEvent.objects.exists()


def test_only_who_may_add_models(viewer: User, alice: User, hub: Hub) -> None:
    for user in (viewer, alice, None):
        client = client_of(user)
        assert client.get(HUB).status_code in (302, 403)
        assert client.post(START, {"repo": hub.repo}).status_code in (302, 403)
    assert hub.source.asked == []
    viewer.user_permissions.add(Permission.objects.get(codename="add_modelconfig"))
    assert client_of(User.objects.get(pk=viewer.pk)).get(HUB).status_code == 200


def test_acts_need_a_post_and_a_token(root: User, hub: Hub) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(root)
    assert client.get(START).status_code == 405
    assert client.post(START, {"repo": hub.repo}).status_code == 403
    assert hub.source.asked == []


def test_the_ways_to_add_know_each_other(admin: Client, viewer: User) -> None:
    form = admin.get("/admin/inference/modelconfig/add/").content.decode()
    page = admin.get(HUB).content.decode()
    for url in ("/admin/inference/modelfile/upload/", "/admin/inference/upstream/add/"):
        assert f'href="{url}"' in form
        assert f'href="{url}"' in page
    assert f'href="{HUB}"' in form
    assert 'href="/admin/inference/modelconfig/add/"' in page
