"""The instance's folder: everything that lasts, for its owner's eyes only.

    db.sqlite3  models/  media/  logs/  keys/  run/

Keys are made once, 0600. `run/` holds what lives as long as the processes: the embedded Redis'
socket and the metric files.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

PRIVATE_MODE = 0o700
KEY_MODE = 0o600
UMASK = 0o077
KEY_BYTES = 48
# A socket's address holds 108 bytes; the server needs a few for its temporary name.
SOCKET_PATH_BYTES = 100
# What a folder may hold besides ours before we take it: a new file system's own folder.
HARMLESS = ("lost+found", ".gitkeep")
KEY_NAMES = ("django_secret", "api_key_hmac", "metrics_token", "redis_password")


class DataDirError(Exception):
    """The folder can't be used safely; the message says why and what to do."""


class DataDir:
    """Paths below `root`; only `prepare`, `key` and `socket_dir` touch the disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.database = root / "db.sqlite3"
        self.models = root / "models"
        self.media = root / "media"
        self.logs = root / "logs"
        self.keys = root / "keys"
        self.run = root / "run"
        self.metrics = self.run / "metrics"

    def prepare(self) -> None:
        """Make what is missing and set the process's umask; safe to repeat and to race.

        Raises:
            DataDirError: a folder can't be made, or the root belongs to somebody else or to
                something else: `/tmp` or `/srv`, closed for all others, would stop a machine.
        """
        os.umask(UMASK)
        folders = (self.models, self.media, self.logs, self.keys, self.run, self.metrics)
        try:
            self.root.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
            self._require_ours()
            _require_private(self.root)
            for folder in folders:
                folder.mkdir(mode=PRIVATE_MODE, exist_ok=True)
            for name in KEY_NAMES:
                self.key(name)
        except OSError as error:
            raise DataDirError(f"can't use {error.filename}: {error.strerror}") from error

    def _require_ours(self) -> None:
        """Whether keys or a database of ours are here, or nothing but what `prepare` makes."""
        if self.database.exists() or any((self.keys / name).exists() for name in KEY_NAMES):
            return
        ours = (self.models, self.media, self.logs, self.keys, self.run)
        known = {*HARMLESS, *(path.name for path in ours)}
        strange = sorted({path.name for path in self.root.iterdir()} - known)
        if strange:
            raise DataDirError(
                f"{self.root} is in use for something else (it holds {strange[0]!r}, and no keys "
                "or database of llamaweb); name a new or an empty folder"
            )

    def key(self, name: str) -> str:
        """The generated secret `name`, made at the first call; two processes get the same one."""
        path = self.keys / name
        try:
            return _read_key(path)
        except FileNotFoundError:
            _write_once(path, secrets.token_urlsafe(KEY_BYTES))
            return _read_key(path)

    def redis_socket(self) -> Path:
        """Where the embedded Redis listens: always the same place for the same folder."""
        preferred = self.run / "redis.sock"
        if len(os.fsencode(preferred)) <= SOCKET_PATH_BYTES:
            return preferred
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]
        # Not tempfile.gettempdir(): every process must agree, whatever its TMPDIR says.
        return Path("/tmp") / f"llamaweb-{os.getuid()}-{digest}" / "redis.sock"

    def prepare_redis_socket(self) -> Path:
        """Make the socket's folder and return the socket's path.

        Raises:
            DataDirError: the folder in /tmp is a link or somebody else's.
        """
        socket = self.redis_socket()
        try:
            socket.parent.mkdir(mode=PRIVATE_MODE, exist_ok=True)
            _require_private(socket.parent)
        except OSError as error:
            raise DataDirError(f"can't use {error.filename}: {error.strerror}") from error
        return socket


def _require_private(folder: Path) -> None:
    info = folder.lstat()
    if stat.S_ISLNK(info.st_mode) and folder.parent == Path("/tmp"):
        raise DataDirError(f"{folder} is a symbolic link; remove it")
    info = folder.stat()
    if not stat.S_ISDIR(info.st_mode):
        raise DataDirError(f"{folder} is not a folder; remove it")
    if info.st_uid != os.getuid():
        raise DataDirError(f"{folder} belongs to user {info.st_uid}, not to {os.getuid()}")
    if stat.S_IMODE(info.st_mode) & 0o077:
        folder.chmod(PRIVATE_MODE)


def _read_key(path: Path) -> str:
    value = path.read_text().strip()
    if not value:
        raise DataDirError(f"{path} is empty; remove it to get a new key")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        path.chmod(KEY_MODE)
    return value


def _write_once(path: Path, value: str) -> None:
    """Write a whole file or nothing; whoever comes first wins."""
    descriptor, name = tempfile.mkstemp(dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(value + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(name, path)
    except FileExistsError:
        pass
    finally:
        Path(name).unlink()
