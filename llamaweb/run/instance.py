"""One instance on one data folder and one address."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from io import TextIOWrapper
from pathlib import Path

from llamaweb.env import VARIABLES, Env

# After a hard end the old processes need a moment to let the address go.
ADDRESS_WAIT_S = 3.0
ADDRESS_POLL_S = 0.1


class InstanceError(Exception):
    """The instance can't start; the message says why and what to do."""


def lock_data_dir(root: Path, run: Path) -> TextIOWrapper:
    """Hold the data folder until this process ends.

    Raises:
        InstanceError: another instance holds it.
    """
    stream = (run / "instance.lock").open("a+")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.seek(0)
        pid = stream.read(20).strip()
        stream.close()
        raise InstanceError(
            f"LLAMAWEB_DATA_DIR: {root} is in use by another instance (pid {pid or 'unknown'}). "
            "Stop that one, or give this one a folder of its own."
        ) from None
    stream.truncate(0)
    stream.write(f"{os.getpid()}\n")
    stream.flush()
    return stream


def clear_metrics(folder: Path) -> None:
    """Counters start at 0 with the instance; call it while the data folder is held."""
    for path in folder.glob("*.db"):
        path.unlink(missing_ok=True)


def forget_dead(folder: Path) -> None:
    """What processes that were killed had open is open no more; their counters stay."""
    for path in folder.glob("gauge_live*.db"):
        pid = path.stem.rpartition("_")[2]
        if pid.isdigit() and not Path("/proc", pid).exists():
            path.unlink(missing_ok=True)


def require_free_address(env: Env, wait_s: float = ADDRESS_WAIT_S) -> None:
    """Try the address that the web processes will share.

    Raises:
        InstanceError: somebody listens there, or it isn't this machine's.
    """
    deadline_ts = time.monotonic() + wait_s
    while (reason := _bind_error(env.host, env.port)) is not None:
        if time.monotonic() > deadline_ts:
            raise InstanceError(
                f"LLAMAWEB_PORT: can't listen on {env.host}:{env.port} ({reason}). "
                "Stop what uses it, or set another LLAMAWEB_PORT."
            )
        time.sleep(ADDRESS_POLL_S)


def _bind_error(host: str, port: int) -> str | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            return error.strerror or str(error)
    return None


def child_environment(env: Env) -> dict[str, str]:
    """Our environment for the processes, with paths that hold in any working directory."""
    found = dict(os.environ)
    for variable in VARIABLES:
        value = getattr(env, variable.field)
        if isinstance(value, Path):
            found[variable.name] = str(value)
    found.setdefault("DJANGO_SETTINGS_MODULE", "llamaweb.settings")
    found["PYTHONUNBUFFERED"] = "1"
    # Django's checks load every page, also in a process of jobs; `manage.py check` runs them.
    found["CELERY_SKIP_CHECKS"] = "1"
    found["CHILD_OF"] = str(os.getpid())
    return found
