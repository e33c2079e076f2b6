"""The models directory: what is in it is listed, and nothing leads out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inference.models import ModelConfig, ModelFile
from inference.registry import model_dir
from inference.registry.config_services import model_config_add
from inference.registry.files import file_check, model_facts, model_file_delete
from inference.registry.model_dir import entries, opened_in
from inference.registry.scan import models_scan
from llamaweb.accounts.models import AuditEvent, User
from llamaweb.data_dir import DataDir
from llamaweb.lib.errors import BusyError, InvalidError
from tests.registry.gguf_files import Value, model, shards, values, whole

pytestmark = pytest.mark.django_db(transaction=True)
ENCODER: dict[str, Value] = {"general.architecture": "clip", "clip.has_vision_encoder": True}


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def put_shards(folder: Path, count: int = 3) -> list[Path]:
    parts = shards(count)
    return [
        put(folder, f"big/m-{no + 1:05d}-of-{count:05d}.gguf", data)
        for no, data in enumerate(parts)
    ]


def row(label: str) -> ModelFile:
    return ModelFile.objects.get(label=label, main=None)


def test_every_model_is_listed_with_its_facts(models_dir: Path) -> None:
    put(models_dir, "tiny.gguf", model())
    put(models_dir, "sees/model.gguf", model(name="Sees"))
    put(models_dir, "sees/mmproj-f16.gguf", whole(ENCODER))
    put(models_dir, "lora.gguf", whole({"general.architecture": "llama", "adapter.type": "lora"}))
    put(models_dir, "text.gguf", b"<!doctype html>" * 9)
    result = models_scan()
    assert (result.num_models, result.num_new, result.num_read) == (3, 4, 5)
    tiny = row("tiny")
    assert (tiny.state, tiny.role, tiny.architecture, tiny.context_len) == (
        "ready",
        "model",
        "llama",
        2048,
    )
    assert (tiny.is_owned, tiny.path) == (False, str(models_dir / "tiny.gguf"))
    assert tiny.templates == {"": "{{ messages }}"}
    assert tiny.template_facts["can"]["system"] is True
    (encoder,) = row("sees").parts.all()
    assert (encoder.role, encoder.state) == ("mmproj", "ready")
    assert row("lora").role == "adapter"
    assert (row("text").state, row("text").error) == ("damaged", "this is not a GGUF file")


def test_what_hasn_t_changed_isn_t_read_again(models_dir: Path) -> None:
    path = put(models_dir, "tiny.gguf", model())
    put_shards(models_dir)
    models_scan()
    before = {one.pk: one.updated_at for one in ModelFile.objects.all()}
    assert models_scan().num_read == 0
    assert {one.pk: one.updated_at for one in ModelFile.objects.all()} == before
    path.write_bytes(model(name="Other"))
    assert models_scan().num_read == 1
    assert row("tiny").title == "Other"


def test_shards_are_one_model_and_a_lost_one_is_named(models_dir: Path) -> None:
    paths = put_shards(models_dir)
    models_scan()
    big = row("big")
    assert (big.state, big.path) == ("ready", str(paths[0]))
    assert [part.role for part in big.parts.all()] == ["shard", "shard"]
    facts = model_facts(big)
    assert facts is not None
    assert (facts.weights.num_tensors, facts.size) == (3, sum(p.stat().st_size for p in paths))
    data = paths[1].read_bytes()
    paths[1].write_bytes(data[:-40])
    models_scan()
    big.refresh_from_db()
    assert big.state == "incomplete"
    assert big.error.startswith(f"{paths[1].name}: the file is cut off")
    paths[1].unlink()
    models_scan()
    big.refresh_from_db()
    assert (big.state, big.error) == ("incomplete", f"{paths[1].name} is missing")
    paths[1].write_bytes(data)
    models_scan()
    big.refresh_from_db()
    assert (big.state, big.error) == ("ready", "")
    paths[0].unlink()
    models_scan()
    big.refresh_from_db()
    assert (big.state, big.error) == ("incomplete", f"{paths[0].name} is missing")


def test_what_vanishes_is_marked_and_comes_back(models_dir: Path) -> None:
    path = put(models_dir, "sees/model.gguf", model())
    put(models_dir, "sees/mmproj.gguf", whole(ENCODER))
    models_scan()
    data = path.read_bytes()
    path.unlink()
    assert models_scan().num_missing == 1
    assert models_scan().num_missing == 0
    assert (row("sees").state, row("sees").parts.count()) == ("missing", 0)
    assert row("sees/mmproj").role == "mmproj"
    path.write_bytes(data)
    models_scan()
    assert (row("sees").state, row("sees").parts.count()) == ("ready", 1)
    assert not ModelFile.objects.filter(label="sees/mmproj").exists()


def test_links_are_refused(models_dir: Path, tmp_path: Path) -> None:
    secret = put(tmp_path, "outside/secret.gguf", model(name="Secret"))
    put(models_dir, "tiny.gguf", model())
    (models_dir / "link.gguf").symlink_to(secret)
    (models_dir / "near.gguf").symlink_to(models_dir / "tiny.gguf")
    (models_dir / "folder").symlink_to(secret.parent)
    result = models_scan()
    assert dict(result.skipped) == dict.fromkeys(
        ("link.gguf", "near.gguf", "folder"), "it is a symbolic link"
    )
    assert [one.label for one in ModelFile.objects.all()] == ["tiny"]
    for name in ("link.gguf", "folder/secret.gguf", str(models_dir / "folder" / "secret.gguf")):
        with pytest.raises(InvalidError, match="is a symbolic link"):
            file_check(name)


def test_a_link_swapped_in_between_is_refused(
    models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between listing and opening, a file and a folder become links to somewhere else."""
    secret = put(tmp_path, "outside/x.gguf", model(name="Secret"))
    file = put(models_dir, "x.gguf", model())
    inside = put(models_dir, "folder/x.gguf", model())
    listed = entries(models_dir)
    file.unlink()
    file.symlink_to(secret)
    inside.unlink()
    inside.parent.rmdir()
    inside.parent.symlink_to(secret.parent)
    monkeypatch.setattr("inference.registry.scan.entries", lambda _: listed)
    result = models_scan()
    assert dict(result.skipped) == {
        "x.gguf": "'x.gguf' is a symbolic link",
        "folder/x.gguf": "'folder' is a symbolic link",
    }
    assert not ModelFile.objects.exists()


@pytest.mark.parametrize("name", ["../x.gguf", "a/../../x.gguf", "/etc/passwd", ""])
def test_names_stay_inside(models_dir: Path, name: str) -> None:
    with pytest.raises(InvalidError, match="leads out"), opened_in(models_dir, name):
        pass


def test_what_is_no_file_is_skipped(models_dir: Path) -> None:
    os.mkfifo(models_dir / "pipe.gguf")
    (models_dir / "folder.gguf").mkdir()
    put(models_dir, ".hidden/x.gguf", model())
    put(models_dir, "notes.txt", b"x")
    Path(os.fsdecode(bytes(models_dir) + b"/\xff.gguf")).write_bytes(model())
    result = models_scan()
    assert dict(result.skipped) == {
        "pipe.gguf": "it is not a regular file",
        r"'\udcff.gguf'": "its name is no text in UTF-8",
    }
    assert not ModelFile.objects.exists()


def test_too_much_is_refused(models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_dir, "MAX_FILES", 2)
    for number in range(3):
        put(models_dir, f"{number}.gguf", b"x")
    with pytest.raises(InvalidError, match="more than 2 models"):
        models_scan()


def test_one_looks_at_a_time(models_dir: Path) -> None:
    from inference.registry.scan import _alone

    with _alone(), pytest.raises(BusyError, match="being looked through"):
        models_scan()
    models_scan()


def test_a_data_directory_behind_a_link(
    models_dir: Path, tmp_path: Path, settings: pytest.FixtureRequest
) -> None:
    (tmp_path / "link").symlink_to(models_dir.parent)
    settings.DATA_DIR = DataDir(tmp_path / "link")  # type: ignore[attr-defined]
    put(models_dir, "tiny.gguf", model())
    assert models_scan().num_new == 1
    assert file_check("tiny.gguf").path == tmp_path / "link" / "models" / "tiny.gguf"
    assert models_scan().num_new == 0


def test_a_download_on_its_way_isn_t_listed(models_dir: Path) -> None:
    coming = ModelFile.objects.create(source_url="https://h/x.gguf", is_owned=True)
    path = put(models_dir, f"x-{coming.pk}.gguf", model())
    models_scan()
    assert ModelFile.objects.get() == coming
    ModelFile.objects.update(state="ready", path=str(path))
    models_scan()
    assert ModelFile.objects.get().facts["architecture"] == "llama"
    assert ModelFile.objects.get().is_owned


def test_only_what_is_ours_goes_from_the_disk(
    models_dir: Path, django_capture_on_commit_callbacks: object
) -> None:
    ours, theirs = put_shards(models_dir), put(models_dir, "their/x.gguf", model())
    models_scan()
    ModelFile.objects.filter(path__contains="/big/").update(is_owned=True)
    with pytest.raises(InvalidError, match="is a part of big"):
        model_file_delete(file=row("big").parts.all()[0])
    model_file_delete(file=row("big"))
    model_file_delete(file=row("their"))
    assert [path.exists() for path in ours] == [False] * 3
    assert not ours[0].parent.exists()
    assert theirs.exists()
    assert not ModelFile.objects.exists()
    assert models_scan().num_new == 1


def test_files_elsewhere_are_looked_after(models_dir: Path, tmp_path: Path) -> None:
    path = put(tmp_path, "elsewhere/x.gguf", model())
    config = model_config_add(name="x", path=str(path))
    data = path.read_bytes()
    path.unlink()
    assert models_scan().num_missing == 1
    file = ModelFile.objects.get()
    assert file.state == "missing"
    path.write_bytes(data)
    models_scan()
    file.refresh_from_db()
    assert (file.state, config.file_id) == ("ready", file.pk)


def test_a_model_of_a_name_in_the_directory(models_dir: Path) -> None:
    put_shards(models_dir)
    models_scan()
    config = model_config_add(name="big", path="big/m-00001-of-00003.gguf")
    assert config.file == row("big")
    assert ModelConfig.objects.count() == 1
    with pytest.raises(InvalidError, match="part 2 of 3"):
        model_config_add(name="part", path="big/m-00002-of-00003.gguf")


def test_an_administrators_look_is_written_down(models_dir: Path, alice: User) -> None:
    put(models_dir, "tiny.gguf", model())
    models_scan(actor=alice)
    (event,) = AuditEvent.objects.filter(action="model_file.scanned")
    assert (event.detail["models"], event.detail["new"]) == (1, 1)


def test_a_template_that_never_ends_is_told_of(models_dir: Path) -> None:
    bomb = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"
    put(models_dir, "bomb.gguf", whole(values() | {"tokenizer.chat_template": bomb}))
    models_scan()
    assert row("bomb").state == "ready"
    assert "chat template" in row("bomb").template_facts["error"]
