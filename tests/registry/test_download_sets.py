"""Models of several files: all of them or none, each checked, from where they were."""

from __future__ import annotations

import dataclasses
import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from inference.models import ModelConfig, ModelFile
from inference.registry import download_fetch, download_job
from inference.registry.download_job import model_download
from inference.registry.downloads import (
    hub_download_start,
    model_download_cancel,
    model_download_pause,
    model_download_resume,
    model_download_retry,
    model_download_start,
    model_download_sweep,
)
from inference.registry.files import model_facts, model_file_delete
from inference.registry.hub import hub_model
from inference.registry.scan import models_scan
from llamaweb.accounts.models import AuditEvent
from llamaweb.lib.errors import InvalidError
from tests.registry.downloading import WAIT_S, die, fresh, left_over, run_job
from tests.registry.gguf_files import shards, values, whole
from tests.registry.hub_source import Hub, entry
from tests.registry.job_process import job_process
from tests.registry.source import Source
from tests.stack import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
BODIES = shards(3, **{"tokenizer.chat_template": "x" * 200_000})
NAMES = [f"Tiny-Q4_K_M-{no:05d}-of-00003.gguf" for no in (1, 2, 3)]
MMPROJ = whole({"general.type": "mmproj", "general.architecture": "clip"}, {"v": 512})


@pytest.fixture
def repo(hub: Hub, downloading: Path) -> Hub:
    """A model in three shards, with an encoder."""
    hub.add(**dict(zip(NAMES, BODIES, strict=True)), **{"mmproj-F16.gguf": MMPROJ})
    return hub


def start(hub: Hub, **more: Any) -> ModelFile:
    return hub_download_start(model=hub_model(hub.repo), name="tiny", **more)


def replace(hub: Hub, name: str, body: bytes, *, listed: bytes | None = None) -> None:
    """Serve `body` as a file; the listing says the digest and size of `listed`."""
    hub.source.files[hub.path_of(name)] = body
    hub.listed = [item for item in hub.listed if item["path"] != name]
    hub.listed.append(entry(name, body if listed is None else listed))
    hub.publish()


def asked(hub: Hub, name: str) -> list[str | None]:
    """The ranges that were asked for of a file."""
    return [one.get("range") for one in hub.source.asked if one[":path"] == hub.path_of(name)]


def failed(file: ModelFile, folder: Path) -> str:
    """The reason of a failure that left nothing that can be used."""
    row = fresh(file)
    assert row.state == "failed"
    assert {part.state for part in row.parts.all()} <= {"failed"}
    assert [name for name in left_over(folder) if not name.startswith(".incoming/")] == []
    assert not ModelConfig.objects.exists()
    models_scan()
    assert set(ModelFile.objects.values_list("state", flat=True)) == {"failed"}
    return row.error


def test_all_files_become_one_model(downloading: Path, repo: Hub) -> None:
    file = start(repo, load=True)
    assert str(file) == f"tiny-GGUF-Q4_K_M-{file.pk}"
    assert model_download(file.pk) == "ready"
    folder = f"tiny-GGUF-Q4_K_M-{file.pk}"
    assert left_over(downloading) == sorted(f"{folder}/{n}" for n in [*NAMES, "mmproj-F16.gguf"])
    row = fresh(file)
    assert Path(row.path) == downloading / folder / NAMES[0]
    parts = [(p.role, Path(p.path).name, p.state) for p in row.parts.order_by("pk")]
    assert parts == [
        ("shard", NAMES[1], "ready"),
        ("shard", NAMES[2], "ready"),
        ("mmproj", "mmproj-F16.gguf", "ready"),
    ]
    facts = model_facts(row)
    assert facts is not None
    assert facts.weights.num_tensors == 3
    config = ModelConfig.objects.get()
    assert (config.name, config.file_id, config.wanted) == ("tiny", row.pk, "loaded")
    found = models_scan()
    assert (found.num_models, found.num_new, found.skipped) == (1, 0, [])
    assert fresh(file).state == "ready"
    config.delete()
    model_file_delete(file=row)
    assert left_over(downloading) == []
    assert not (downloading / folder).exists()


def test_a_model_of_one_file(downloading: Path, hub: Hub) -> None:
    body = whole(values())
    hub.add(**{"sub/T Q8.gguf": body})
    hub.source.files[hub.path_of("sub/T%20Q8.gguf")] = body
    file = start(hub)
    assert model_download(file.pk) == "ready"
    assert left_over(downloading) == [f"T-Q8-{file.pk}.gguf"]


def test_an_address_of_a_first_shard(downloading: Path, source: Source) -> None:
    for name, body in zip(NAMES, BODIES, strict=True):
        source.files[f"/m/{name}"] = body
    file = model_download_start(url=f"{source.origin}/m/{NAMES[0]}?t=1", name="tiny")
    assert model_download(file.pk) == "ready"
    assert sorted(Path(name).name for name in left_over(downloading)) == NAMES
    assert {one[":path"].partition("?")[2] for one in source.asked} == {"t=1"}
    with pytest.raises(InvalidError, match="first file"):
        model_download_start(url=f"{source.origin}/m/{NAMES[1]}", name="other")


def test_a_kill_at_half_of_it(downloading: Path, repo: Hub) -> None:
    half = len(BODIES[0]) // 2
    repo.source.piece, repo.source.hold_at = 1000, half
    file = start(repo)
    with job_process(file.pk) as process:
        try:
            assert repo.source.is_held.wait(WAIT_S)
            wait_for("half is written down", lambda: fresh(file).bytes_done >= half - 2**16, WAIT_S)
        finally:
            process.kill()
    repo.source.go_on.set()
    ModelFile.objects.update(heartbeat_at=None)
    assert model_download_sweep() == 1
    done = fresh(file).bytes_done
    assert model_download(file.pk) == "ready"
    assert asked(repo, NAMES[0]) == [None, f"bytes={done}-"]
    assert asked(repo, NAMES[1]) == [None]
    assert Path(fresh(file).path).read_bytes() == BODIES[0]


@pytest.mark.parametrize("at", ["rename 1", "rename 3", "config"])
def test_a_kill_while_it_is_put_in_its_place(downloading: Path, repo: Hub, at: str) -> None:
    file = start(repo)
    die(file, at=at)
    models_scan()
    assert fresh(file).state == "downloading"
    assert ModelFile.objects.filter(main=None).count() == 1
    ModelFile.objects.update(heartbeat_at=None)
    num_asked = len(repo.source.asked)
    assert model_download(file.pk) == "ready"
    assert len(repo.source.asked) == num_asked
    assert len(left_over(downloading)) == 4


def test_a_wrong_shard_is_thrown_away_and_nothing_else(downloading: Path, repo: Hub) -> None:
    wrong = BODIES[1][:-1] + b"?"
    replace(repo, NAMES[1], wrong, listed=BODIES[1])
    file = start(repo)
    assert model_download(file.pk) == "failed"
    assert f"{NAMES[1]}: the file has another SHA-256" in failed(file, downloading)
    repo.source.files[repo.path_of(NAMES[1])] = BODIES[1]
    assert model_download_retry(file=file)
    assert model_download(file.pk) == "ready"
    assert asked(repo, NAMES[0]) == [None]
    assert asked(repo, NAMES[1]) == [None, None]


def test_a_truncated_shard(downloading: Path, repo: Hub) -> None:
    repo.source.files[repo.path_of(NAMES[2])] = BODIES[2][:-1]
    file = start(repo)
    model_download(file.pk)
    assert f"{NAMES[2]}: the server has a file of" in failed(file, downloading)


def test_a_shard_that_is_whole_by_its_digest_and_cut_off(downloading: Path, repo: Hub) -> None:
    replace(repo, NAMES[2], BODIES[2][:-100])
    file = start(repo)
    model_download(file.pk)
    assert "cut off" in failed(file, downloading)


def test_a_shard_of_another_model(downloading: Path, repo: Hub) -> None:
    replace(repo, NAMES[2], BODIES[1])
    file = start(repo)
    model_download(file.pk)
    assert "says it is part 2 of 3" in failed(file, downloading)
    assert left_over(downloading) == []


def test_a_missing_shard(downloading: Path, repo: Hub) -> None:
    repo.source.at[repo.path_of(NAMES[1])] = (404, {})
    file = start(repo)
    model_download(file.pk)
    assert f"{NAMES[1]}: the server answers 404" in failed(file, downloading)


def test_an_encoder_that_is_none(downloading: Path, repo: Hub) -> None:
    replace(repo, "mmproj-F16.gguf", whole(values()))
    file = start(repo)
    model_download(file.pk)
    assert "mmproj-F16.gguf: this is no image or audio encoder" in failed(file, downloading)


def test_a_gated_file(downloading: Path, repo: Hub) -> None:
    repo.source.at[repo.path_of(NAMES[0])] = (403, {})
    file = start(repo)
    model_download(file.pk)
    assert "LLAMAWEB_HUB_TOKEN" in failed(file, downloading)


def test_a_redirect_to_a_private_address(downloading: Path, repo: Hub, settings: Any) -> None:
    settings.HUB_TOKEN = "hf_" + "s" * 30
    where = {"Location": "http://169.254.169.254/latest/meta-data"}
    repo.source.at[repo.path_of(NAMES[1])] = (302, where)
    file = start(repo)
    model_download(file.pk)
    assert "isn't public" in failed(file, downloading)
    assert settings.HUB_TOKEN not in str(list(ModelFile.objects.values()))


def test_no_room_for_all_of_it(
    downloading: Path, repo: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": sum(map(len, BODIES))})
    monkeypatch.setattr(download_job.shutil, "disk_usage", lambda _path: usage)
    file = start(repo)
    num_asked = len(repo.source.asked)
    model_download(file.pk)
    assert "the disk has" in failed(file, downloading)
    assert len(repo.source.asked) == num_asked


def test_the_disk_gets_full_meanwhile(
    downloading: Path, repo: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = download_fetch.Part.write, [0]

    def full(self: Any, data: bytes) -> None:
        written[0] += len(data)
        if written[0] > len(BODIES[0]) + 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, data)

    file = start(repo)
    with monkeypatch.context() as patch:
        patch.setattr(download_fetch.Part, "write", full)
        model_download(file.pk)
    assert "No space left on device; what is there is kept" in failed(file, downloading)
    assert model_download_retry(file=file)
    assert model_download(file.pk) == "ready"
    assert asked(repo, NAMES[0]) == [None]


def in_thread(file: ModelFile) -> threading.Thread:
    thread = threading.Thread(target=run_job, args=(file.pk,))
    thread.start()
    return thread


def test_pause_and_resume(
    downloading: Path, repo: Hub, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_job, "WRITE_EVERY_S", 0.0)
    repo.source.piece, repo.source.pause_s = 2000, 0.02
    file = start(repo)
    thread = in_thread(file)
    wait_for("some of it is there", lambda: fresh(file).bytes_done > 20_000, WAIT_S)
    assert model_download_pause(file=file, actor=alice)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    done = fresh(file).bytes_done
    assert fresh(file).state == "paused"
    assert {part.state for part in file.parts.all()} == {"paused"}
    assert model_download_sweep() == 0
    assert model_download(file.pk) == ""
    assert not model_download_pause(file=file)
    with pytest.raises(InvalidError, match="is being downloaded"):
        start(repo)
    repo.source.pause_s = 0.0
    assert model_download_resume(file=file, actor=alice)
    assert not model_download_resume(file=file)
    assert model_download(file.pk) == "ready"
    assert asked(repo, NAMES[0]) == [None, f"bytes={done}-"]
    actions = list(AuditEvent.objects.order_by("id").values_list("action", flat=True))
    assert "model_file.download_paused" in actions
    assert "model_file.download_resumed" in actions


@pytest.mark.parametrize("paused", [True, False])
def test_cancelling(downloading: Path, repo: Hub, paused: bool) -> None:
    repo.source.at[repo.path_of(NAMES[2])] = (404, {})
    file = start(repo)
    model_download(file.pk)
    assert len(left_over(downloading)) == 2
    model_download_retry(file=file)
    if paused:
        model_download_pause(file=file)
    assert model_download_cancel(file=file)
    assert left_over(downloading) == []
    assert (
        list(file.parts.values_list("state", "bytes_done", "sha256")) == [("cancelled", 0, "")] * 3
    )
    repo.source.at.clear()
    assert model_download_retry(file=file)
    assert model_download(file.pk) == "ready"


def test_two_at_once(downloading: Path, repo: Hub, sent: list[int]) -> None:
    model = hub_model(repo.repo)
    files = [hub_download_start(model=model, name=f"m{no}") for no in range(3)]
    repo.source.piece, repo.source.pause_s = 2000, 0.02
    threads = [in_thread(file) for file in files[:2]]
    wait_for("both are on their way", lambda: all(fresh(f).bytes_done for f in files[:2]), WAIT_S)
    assert model_download(files[2].pk) == ""
    repo.source.pause_s = 0.0
    for thread in threads:
        thread.join(WAIT_S)
    assert [fresh(file).state for file in files] == ["ready", "ready", "queued"]
    assert model_download(files[2].pk) == "ready"
    assert len(left_over(downloading)) == 12


def test_the_context_that_fits_is_the_models(downloading: Path, repo: Hub) -> None:
    file = start(repo, context_len=3328)
    assert model_download(file.pk) == "ready"
    assert ModelConfig.objects.get().context_len == 3328


def test_a_server_that_asks_for_a_moment(
    downloading: Path, repo: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(download_job._Job, "_pause", lambda _self, s: waits.append(s))
    file = start(repo)
    repo.source.headers = {"Retry-After": "7"}
    repo.source.statuses = [429]
    assert model_download(file.pk) == "ready"
    assert waits == [7.0]


def test_names_that_would_meet(hub: Hub, downloading: Path) -> None:
    hub.listed = [entry("x-Q4_K_M.gguf"), entry("mmproj.gguf")]
    hub.publish()
    found = hub_model(hub.repo)
    assert found.mmproj is not None
    beside = dataclasses.replace(found.mmproj, path="x?Q4_K_M.gguf")
    with pytest.raises(InvalidError, match="same name"):
        hub_download_start(model=dataclasses.replace(found, mmproj=beside), name="tiny")
    assert not ModelFile.objects.exists()
