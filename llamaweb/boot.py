"""The first step of every Django process: environment checked, folder ready, keys read.

Tests and the type checker bring their own `Boot` through `use`, before settings are imported.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import quote

from llamaweb.data_dir import DataDir, DataDirError
from llamaweb.env import Env
from llamaweb.env_load import EnvError, load_env

EXIT_BAD_CONFIG = 78  # EX_CONFIG of sysexits.h


@dataclass(frozen=True, slots=True)
class Boot:
    """What settings are made of. `redis_url` is in redis-py's form, password included."""

    env: Env
    data_dir: DataDir
    secret_key: str
    api_key_hmac_key: str
    metrics_token: str
    redis_url: str
    uses_embedded_redis: bool


_boot: Boot | None = None


def use(value: Boot) -> None:
    """Let the next `boot` return `value` instead of reading the environment."""
    global _boot
    _boot = value


def boot() -> Boot:
    """The process's configuration; a bad one ends the process with one line a problem."""
    global _boot
    if _boot is None:
        try:
            _boot = boot_from(load_env(os.environ))
        except EnvError as error:
            refuse(error.problems)
        except DataDirError as error:
            refuse((f"LLAMAWEB_DATA_DIR: {error}; allowed: a folder of your own",))
    return _boot


def boot_from(env: Env) -> Boot:
    """Prepare the data folder of `env` and read its keys.

    Raises:
        DataDirError: the folder can't be used.
    """
    data_dir = DataDir(env.data_dir)
    data_dir.prepare()
    redis_url = env.redis_url
    if not redis_url:
        redis_url = embedded_redis_url(data_dir)
    return Boot(
        env=env,
        data_dir=data_dir,
        secret_key=env.secret_key or data_dir.key("django_secret"),
        api_key_hmac_key=env.api_key_hmac_key or data_dir.key("api_key_hmac"),
        metrics_token=env.metrics_token or data_dir.key("metrics_token"),
        redis_url=redis_url,
        uses_embedded_redis=not env.redis_url,
    )


def embedded_redis_url(data_dir: DataDir) -> str:
    """How the embedded server is reached, whether it runs yet or not."""
    socket = data_dir.prepare_redis_socket()
    return f"unix://:{quote(data_dir.key('redis_password'), safe='')}@{quote(str(socket))}"


def refuse(problems: tuple[str, ...]) -> NoReturn:
    """Say what is wrong on standard error and end the process."""
    for problem in problems:
        sys.stderr.write(f"llamaweb: {problem}\n")
    raise SystemExit(EXIT_BAD_CONFIG)
