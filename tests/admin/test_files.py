"""Model files in the administration: what they say of themselves, the directory, the memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from inference.models import ModelConfig, ModelFile
from inference.protocol.devices import Device, encode_devices
from inference.queues.contract import SUPERVISOR_ID, Beat
from inference.queues.memory import MemoryQueue
from inference.registry.config_services import model_config_add
from inference.registry.scan import models_scan
from llamaweb.accounts.models import AuditEvent, User
from tests.admin.conftest import client_of
from tests.registry.gguf_files import model, shards, values, whole

pytestmark = pytest.mark.django_db
FILES = "/admin/inference/modelfile/"
MODELS = "/admin/inference/modelconfig/"
GIB = 1 << 30
HOSTILE = "<script>alert(1)</script>"


def put_shards(folder: Path) -> None:
    (folder / "big").mkdir()
    for number, data in enumerate(shards(2), start=1):
        (folder / "big" / f"m-{number:05d}-of-00002.gguf").write_bytes(data)


def test_looking_again(admin: Client, models_dir: Path) -> None:
    (models_dir / "tiny.gguf").write_bytes(model())
    (models_dir / "link.gguf").symlink_to("/etc/passwd")
    assert f'action="{FILES}scan/"' in admin.get(FILES).content.decode()
    page = admin.post(f"{FILES}scan/", follow=True).content.decode()
    assert "1 model." in page
    assert "link.gguf, it is a symbolic link" in page
    assert ModelFile.objects.get().label == "tiny"
    assert [event.action for event in AuditEvent.objects.all()] == ["model_file.scanned"]


def test_only_who_may_change_files_looks(viewer: User, alice: User, models_dir: Path) -> None:
    assert f"{FILES}scan/" not in client_of(viewer).get(FILES).content.decode()
    for user in (viewer, alice, None):
        assert client_of(user).post(f"{FILES}scan/").status_code in (302, 403)
    assert client_of(viewer).get(f"{FILES}scan/").status_code == 405
    assert not AuditEvent.objects.exists()


def test_a_file_says_what_it_is(admin: Client, models_dir: Path) -> None:
    entries = values(name=HOSTILE) | {"general.file_type": 15, "tokenizer.chat_template": HOSTILE}
    (models_dir / "tiny.gguf").write_bytes(whole(entries))
    models_scan()
    file = ModelFile.objects.get()
    assert "llama 1.0K Q4_K_M" in admin.get(FILES).content.decode()
    page = admin.get(f"{FILES}{file.pk}/change/").content.decode()
    for said in ("2,048", "Q4_K_M, ", "4, 2 of keys and values", "gpt2", "plain turns only"):
        assert said in page
    assert HOSTILE not in page


def test_parts_stand_with_their_model(admin: Client, models_dir: Path) -> None:
    put_shards(models_dir)
    models_scan()
    main = ModelFile.objects.get(main=None)
    part = main.parts.get()
    listed = admin.get(FILES).content.decode()
    assert f"/{main.pk}/change/" in listed
    assert f"/{part.pk}/change/" not in listed
    page = admin.get(f"{FILES}{main.pk}/change/").content.decode()
    assert "m-00002-of-00002.gguf: part of a model" in page


def test_making_a_model_of_a_file(admin: Client, models_dir: Path) -> None:
    put_shards(models_dir)
    models_scan()
    main = ModelFile.objects.get(main=None)
    page = admin.post(f"{FILES}{main.pk}/act/serve/", follow=True).content.decode()
    assert "big was added." in page
    config = ModelConfig.objects.get()
    assert (config.name, config.file, config.wanted) == ("big", main, "auto")
    (models_dir / "big" / "m-00002-of-00002.gguf").unlink()
    models_scan()
    page = admin.post(f"{MODELS}{config.pk}/act/load/", follow=True).content.decode()
    assert "m-00002-of-00002.gguf is missing" in page
    page = admin.get(f"{FILES}{main.pk}/change/").content.decode()
    assert "/act/serve/" not in page


def test_memory_before_loading(admin: Client, models_dir: Path) -> None:
    (models_dir / "tiny.gguf").write_bytes(model())
    models_scan()
    admin.post(f"{FILES}{ModelFile.objects.get().pk}/act/serve/")
    config = ModelConfig.objects.get()
    page = admin.get(f"{MODELS}{config.pk}/change/").content.decode()
    assert f'data-memory="{config.pk}"' in page
    assert "keys and values 2.0\xa0MB" in page  # 4 slots of 2,048 tokens
    assert "this machine has" in page
    url = f"{MODELS}{config.pk}/memory/"
    lines = admin.get(url, {"num_slots": "8", "context_len": "9000"}).json()["lines"]
    assert "keys and values 4.0\xa0MB" in lines[0]
    assert "trained for 2048 tokens" in lines[-1]
    assert admin.get(url, {"num_slots": "x"}).json() == {"lines": []}
    assert admin.get(url, {"cache_type_k": "q9"}).json() == {"lines": []}


@pytest.mark.parametrize(
    ("devices", "has_gpu"),
    [
        (None, True),  # nobody has told
        ([Device("CUDA0", "a card", "gpu", GIB, GIB)], True),
        ([Device("Vulkan0", "a part of the chip", "integrated", GIB, GIB)], False),
        ([], False),
    ],
)
def test_memory_of_gpus_is_told_where_there_is_one(
    admin: Client, queue: MemoryQueue, models_dir: Path, devices: Any, has_gpu: bool
) -> None:
    (models_dir / "tiny.gguf").write_bytes(model())
    config = model_config_add(name="tiny", path="tiny.gguf", load=True)
    url = f"{MODELS}{config.pk}/memory/"
    if devices is not None:
        info = {"devices": encode_devices(devices)}
        queue.beat("tiny", Beat(SUPERVISOR_ID, "stopped", info=info))
    sums = admin.get(url, {"gpu_layers": "-1"}).json()["lines"][0]
    assert ("on the GPU" in sums) == has_gpu
    on_host = admin.get(url, {"gpu_layers": "0"}).json()["lines"][0]
    assert (sums == on_host) == (devices == [])


def test_memory_is_told_to_who_may_see_models(
    admin: Client, viewer: User, alice: User, models_dir: Path
) -> None:
    config = ModelConfig.objects.create(name="mock", engine_class="mock")
    url = f"{MODELS}{config.pk}/memory/"
    assert client_of(viewer).get(url).json() == {"lines": []}
    assert client_of(alice).get(url).status_code == 302
    assert admin.get(f"{MODELS}999/memory/").status_code == 403
