"""A model in six shards (case C14): one missing or cut off, and a download killed in its middle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.models import ModelConfig, ModelFile
from inference.registry.download_job import model_download
from inference.registry.downloads import hub_download_start, model_download_sweep
from inference.registry.hub import hub_model
from inference.registry.scan import models_scan
from inference.registry.wanted import model_load
from llamaweb.lib.errors import InvalidError
from tests.registry.downloading import WAIT_S, fresh, left_over
from tests.registry.gguf_files import Value, values, whole
from tests.registry.hub_source import Hub
from tests.registry.job_process import job_process
from tests.stack import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
COUNT = 6
NAMES = [f"m-Q4_K_M-{no:05d}-of-{COUNT:05d}.gguf" for no in range(1, COUNT + 1)]


def bodies() -> Iterator[bytes]:
    """Some 200 kB each, no two alike."""
    for no in range(COUNT):
        split: dict[str, Value] = {
            "split.no": no, "split.count": COUNT, "split.tensors.count": COUNT,
        }  # fmt: skip
        yield whole((values() if not no else {}) | split, {f"blk.{no}.w": 50_000 + no})


BODIES = list(bodies())


def put(folder: Path) -> list[Path]:
    """All of it as a folder of the models directory."""
    paths = [folder / "big" / name for name in NAMES]
    paths[0].parent.mkdir()
    for path, body in zip(paths, BODIES, strict=True):
        path.write_bytes(body)
    return paths


@pytest.mark.parametrize(
    ("missing", "cut", "reason"),
    [
        (3, None, f"{NAMES[3]} is missing"),
        (None, 4, f"{NAMES[4]}: the file is cut off"),
        (3, 4, f"{NAMES[3]} is missing"),
        (0, None, f"{NAMES[0]} is missing"),
    ],
)
def test_what_lacks_a_shard_is_listed_and_not_loaded(
    models_dir: Path, missing: int | None, cut: int | None, reason: str
) -> None:
    """C14: one of six missing, one cut off."""
    paths = put(models_dir)
    models_scan()
    file = ModelFile.objects.get(label="big", main=None)
    assert (file.state, file.parts.count()) == ("ready", COUNT - 1)
    config = ModelConfig.objects.create(name="big", file=file, wanted="unloaded")
    if missing is not None:
        paths[missing].unlink()
    if cut is not None:
        paths[cut].write_bytes(BODIES[cut][:-100])
    models_scan()
    file.refresh_from_db()
    assert file.state == "incomplete"
    assert file.error.startswith(reason)
    with pytest.raises(InvalidError, match=r"can't be loaded \(incomplete\)"):
        model_load(config=config)
    for path, body in zip(paths, BODIES, strict=True):
        path.write_bytes(body)
    models_scan()
    assert model_load(config=config)


def test_a_download_killed_at_half_goes_on_by_range(downloading: Path, hub: Hub) -> None:
    """C14: three shards are here and half of the fourth when the job is killed."""
    hub.add(**dict(zip(NAMES, BODIES, strict=True)))
    source, half = hub.source, len(BODIES[3]) // 2
    source.piece, source.hold_at, source.hold_path = 4000, half, hub.path_of(NAMES[3])
    file = hub_download_start(model=hub_model(hub.repo), name="big")
    fourth = file.parts.order_by("pk")[2]
    with job_process(file.pk) as process:
        try:
            assert source.is_held.wait(WAIT_S)
            wait_for("half is written", lambda: fresh(fourth).bytes_done >= half - 2**16, WAIT_S)
        finally:
            process.kill()
    source.go_on.set()
    done = fresh(fourth).bytes_done
    assert 0 < done <= half
    models_scan()  # nothing of it can be used, or is taken for a model
    assert fresh(file).state == "downloading"
    assert all(name.startswith(".incoming/") for name in left_over(downloading))
    assert not ModelFile.objects.exclude(pk=file.pk).filter(main=None).exists()
    ModelFile.objects.update(heartbeat_at=None)
    assert model_download_sweep() == 1
    assert model_download(file.pk) == "ready"
    ranges = {
        name: [one.get("range") for one in source.asked if one[":path"] == hub.path_of(name)]
        for name in NAMES
    }
    assert ranges[NAMES[3]] == [None, f"bytes={done}-"]
    assert all(ranges[name] == [None] for name in NAMES if name != NAMES[3])
    folder = Path(fresh(file).path).parent
    assert [(folder / name).read_bytes() for name in NAMES] == BODIES
    assert left_over(downloading) == [f"{folder.name}/{name}" for name in NAMES]


@pytest.mark.parametrize("no", [0, 5])
def test_a_shard_of_the_right_size_with_other_bytes_is_not_used(
    downloading: Path, hub: Hub, no: int
) -> None:
    """C14: digests are checked before anything is put in its place."""
    hub.add(**dict(zip(NAMES, BODIES, strict=True)))
    hub.source.files[hub.path_of(NAMES[no])] = BODIES[no][:-1] + b"?"
    file = hub_download_start(model=hub_model(hub.repo), name="big")
    assert model_download(file.pk) == "failed"
    assert fresh(file).error.startswith(f"{NAMES[no]}: the file has another SHA-256")
    assert all(name.startswith(".incoming/") for name in left_over(downloading))
    assert not ModelConfig.objects.exists()
