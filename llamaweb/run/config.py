"""Write what supervisord and the embedded Redis read; both files are private (umask 077)."""

from __future__ import annotations

import re
import resource
import shlex
from pathlib import Path

from llamaweb.boot import Boot
from llamaweb.data_dir import DataDir
from llamaweb.run.programs import REDIS_MAX_MEMORY, Program, programs, redis_conf, redis_dir

LOG_MAX_BYTES = 10 * 1024 * 1024
LOG_BACKUPS = 3
# A process that lives this long has started; one that dies sooner is retried after 1, 2, 3, … s.
START_S = 10
START_RETRIES = 1_000_000_000
MIN_FILES = 4096
BAD_PATH = re.compile(r"[\r\n]|\s[;#]")


class ConfigError(Exception):
    """The instance can't be described to supervisord; the message says what to change."""


def supervisord_conf(data_dir: DataDir) -> Path:
    """Where supervisord's configuration is written."""
    return data_dir.run / "supervisord.conf"


def supervisord_log(data_dir: DataDir) -> Path:
    """supervisord's own log."""
    return data_dir.logs / "supervisord.log"


def control_socket(data_dir: DataDir) -> Path:
    """supervisorctl's socket: beside Redis' one, whose path is short enough wherever it is.

    supervisord binds NAME.PID first; that stays below the 108 bytes a socket's address holds.
    """
    return data_dir.prepare_redis_socket().with_name("ctl.sock")


def write_config(boot: Boot, *, dev: bool = False) -> tuple[Program, ...]:
    """Write all files for the instance; returns its programs.

    Raises:
        ConfigError: an address or a path that supervisord can't take.
    """
    if ":" in boot.env.host:
        raise ConfigError(
            f"LLAMAWEB_HOST: {boot.env.host} is an IPv6 address; the web processes share an IPv4 "
            "socket. Listen on an IPv4 address and put a proxy in front of it."
        )
    found = programs(boot, dev=dev)
    if boot.uses_embedded_redis:
        redis_dir(boot).mkdir(mode=0o700, exist_ok=True)
        _write(redis_conf(boot), redis_text(boot))
    _write(supervisord_conf(boot.data_dir), supervisord_text(boot.data_dir, found))
    return found


def redis_text(boot: Boot) -> str:
    """The embedded server: a socket only, a password, everything appended to a file."""
    lines = (
        "port 0",
        f"unixsocket {_redis_word(boot.data_dir.redis_socket())}",
        "unixsocketperm 700",
        f"requirepass {boot.data_dir.key('redis_password')}",
        f"dir {_redis_word(redis_dir(boot))}",
        "appendonly yes",
        "appendfsync everysec",
        'save ""',
        f"maxmemory {REDIS_MAX_MEMORY}",
        "maxmemory-policy noeviction",
        "daemonize no",
        "loglevel notice",
    )
    return "\n".join(lines) + "\n"


def _redis_word(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def supervisord_text(data_dir: DataDir, found: tuple[Program, ...]) -> str:
    """The whole supervisord.conf."""
    socket = _value(str(control_socket(data_dir)))
    sections = [
        f"[unix_http_server]\nfile={socket}\nchmod=0700\n",
        f"[supervisorctl]\nserverurl=unix://{socket}\n",
        "[rpcinterface:supervisor]\n"
        "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n",
        _section("supervisord", _own_options(data_dir)),
        *(_program_section(data_dir, program) for program in found),
    ]
    return "\n".join(sections)


def _own_options(data_dir: DataDir) -> dict[str, str]:
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MIN_FILES if hard_limit == resource.RLIM_INFINITY else min(MIN_FILES, hard_limit)
    return {
        "nodaemon": "true",
        "silent": "true",
        "nocleanup": "true",
        "umask": "077",
        "minfds": str(files),
        "logfile": str(supervisord_log(data_dir)),
        "logfile_maxbytes": str(LOG_MAX_BYTES),
        "logfile_backups": str(LOG_BACKUPS),
        "pidfile": str(data_dir.run / "supervisord.pid"),
        "childlogdir": str(data_dir.logs),
        "directory": str(data_dir.root),
    }


def _program_section(data_dir: DataDir, program: Program) -> str:
    numbered = program.count > 1
    name = f"{program.name}%(process_num)d" if numbered else program.name
    options = {
        "command": shlex.join(program.argv),
        "directory": str(program.directory),
        "priority": str(program.priority),
        "autorestart": "true",
        "startsecs": str(START_S),
        "startretries": str(START_RETRIES),
        "stopsignal": "TERM",
        "stopwaitsecs": str(program.stop_wait_s),
        "killasgroup": "true",
        "redirect_stderr": "true",
        "stdout_logfile_maxbytes": str(LOG_MAX_BYTES),
        "stdout_logfile_backups": str(LOG_BACKUPS),
    }
    kind = "program"
    if program.socket:
        kind = "fcgi-program"
        options["socket"] = program.socket
    text = _section(f"{kind}:{program.name}", options)
    folder = _value(_value(str(data_dir.logs)))  # this option is expanded twice
    text += f"stdout_logfile={folder}/{name}.log\nprocess_name={name}\n"
    if numbered:
        text += f"numprocs={program.count}\nnumprocs_start=1\n"
    return text


def _section(name: str, options: dict[str, str]) -> str:
    lines = [f"{key}={_value(value)}" for key, value in options.items()]
    return "\n".join([f"[{name}]", *lines, ""])


def _value(text: str) -> str:
    """A value that supervisord reads back as it is: it expands % and cuts off comments."""
    if BAD_PATH.search(text):
        raise ConfigError(
            f"{text!r}: a line break, or a blank before ; or #, can't stand in a path here"
        )
    return text.replace("%", "%%")


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)
