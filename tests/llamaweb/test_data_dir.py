"""The data folder: private, its keys made once, its socket's path short."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llamaweb.boot import boot_from, embedded_redis_url
from llamaweb.data_dir import SOCKET_PATH_BYTES, DataDir, DataDirError
from llamaweb.env import Env


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    found = DataDir(tmp_path / "d")
    found.prepare()
    return found


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[DataDir]:
    """One whose own socket path would be too long."""
    found = DataDir(tmp_path / ("x" * SOCKET_PATH_BYTES))
    found.prepare()
    yield found
    shutil.rmtree(found.redis_socket().parent, ignore_errors=True)


def test_keys_differ_and_stay(data_dir: DataDir) -> None:
    first = data_dir.key("django_secret")
    assert len(first) >= 40
    assert first != data_dir.key("api_key_hmac")
    assert DataDir(data_dir.root).key("django_secret") == first


def test_processes_that_start_together_agree(data_dir: DataDir) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: data_dir.key("new"), range(32)))
    assert len(found) == 1
    assert len(list(data_dir.keys.iterdir())) == 5  # no half-written files are left


def test_an_empty_key_is_refused(data_dir: DataDir) -> None:
    (data_dir.keys / "django_secret").write_text("")
    with pytest.raises(DataDirError, match="django_secret is empty"):
        data_dir.key("django_secret")


def test_open_permissions_are_closed(data_dir: DataDir) -> None:
    data_dir.root.chmod(0o755)
    (data_dir.keys / "django_secret").chmod(0o644)
    data_dir.prepare()
    assert data_dir.root.stat().st_mode & 0o777 == 0o700
    assert (data_dir.keys / "django_secret").stat().st_mode & 0o777 == 0o600


def test_a_folder_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "www").mkdir()
    with pytest.raises(DataDirError, match=r"'www'.*new or an empty folder"):
        DataDir(tmp_path).prepare()
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["www"]


@pytest.mark.parametrize("inside", [(), ("lost+found",), ("models", "run")])
def test_an_empty_or_half_made_folder_is_taken(tmp_path: Path, inside: tuple[str, ...]) -> None:
    for name in inside:
        (tmp_path / name).mkdir()
    DataDir(tmp_path).prepare()
    assert (tmp_path / "keys" / "django_secret").exists()


@pytest.mark.parametrize("kept", ["keys", "db.sqlite3"])
def test_our_folder_may_hold_other_things(data_dir: DataDir, kept: str) -> None:
    data_dir.database.touch()
    (data_dir.root / "notes.txt").touch()
    if kept == "keys":
        data_dir.database.unlink()
    else:
        shutil.rmtree(data_dir.keys)
    data_dir.prepare()


def test_a_short_path_keeps_the_socket_inside() -> None:
    assert DataDir(Path("/srv/llamaweb")).redis_socket() == Path("/srv/llamaweb/run/redis.sock")


def test_a_long_path_moves_it_to_the_same_place_every_time(deep: DataDir) -> None:
    socket = deep.prepare_redis_socket()
    assert socket == DataDir(deep.root).prepare_redis_socket()
    assert len(os.fsencode(socket)) <= SOCKET_PATH_BYTES
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    assert DataDir(deep.root / "other").redis_socket() != socket


def test_a_link_in_its_place_is_refused(deep: DataDir, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    folder = deep.redis_socket().parent
    folder.symlink_to(trap)
    try:
        with pytest.raises(DataDirError, match="symbolic link"):
            deep.prepare_redis_socket()
    finally:
        folder.unlink()


def test_somebody_elses_folder_is_refused(deep: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    deep.prepare_redis_socket()
    real = os.getuid()
    place = deep.redis_socket()
    monkeypatch.setattr(DataDir, "redis_socket", lambda _self: place)
    monkeypatch.setattr(os, "getuid", lambda: real + 1)
    with pytest.raises(DataDirError, match="belongs to user"):
        deep.prepare_redis_socket()


def test_the_url_carries_password_and_path(data_dir: DataDir) -> None:
    url = embedded_redis_url(data_dir)
    assert url == f"unix://:{data_dir.key('redis_password')}@{data_dir.redis_socket()}"


def test_given_secrets_win_over_generated_ones(tmp_path: Path) -> None:
    env = Env(
        data_dir=tmp_path / "d",
        secret_key="s" * 20,
        api_key_hmac_key="a" * 20,
        metrics_token="m" * 20,
        redis_url="redis://example:6379/1",
    )
    boot = boot_from(env)
    assert (boot.secret_key, boot.api_key_hmac_key) == ("s" * 20, "a" * 20)
    assert (boot.metrics_token, boot.redis_url) == ("m" * 20, "redis://example:6379/1")
    assert not boot.uses_embedded_redis
