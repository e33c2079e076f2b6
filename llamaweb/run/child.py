"""Start a command so that it can't outlive the process that started it.

    python child.py [--death-signal TERM] [--lock FILE] -- COMMAND [ARGUMENT…]

Every process of an instance is started through this file: it asks the kernel for a signal at its
parent's death, forbids core dumps (they would hold prompts), closes the files it makes to others
and becomes COMMAND. Standard library only and run by its path with -I -S: it costs milliseconds.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
UMASK = 0o077
LOCK_WAIT_S = 10.0
LOCK_POLL_S = 0.05
EXIT_ORPHAN = 75  # EX_TEMPFAIL: the parent died while we were starting
EXIT_LOCKED = 73  # EX_CANTCREAT
EXIT_NOT_FOUND = 127

# Names the process that our command's children must have as a parent. Not LLAMAWEB_*: it is
# no setting, and settings refuse what they don't know.
PARENT_VARIABLE = "CHILD_OF"


def die_with_parent(death_signal: int) -> None:
    """Have the kernel send us `death_signal` when our parent ends; kept across exec."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def is_orphan(expected_parent: str | None, parent_before: int) -> bool:
    """Whether the parent ended before the kernel knew of our wish."""
    if os.getppid() != parent_before:
        return True
    return expected_parent is not None and expected_parent != str(parent_before)


def take_lock(path: str, wait_s: float = LOCK_WAIT_S) -> bool:
    """Hold `path` for as long as this process and the command it becomes live.

    A predecessor that is still writing its files away makes us wait; False when it never ends.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline_ts = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_ts:
                return False
            time.sleep(LOCK_POLL_S)
        else:
            os.set_inheritable(descriptor, True)
            return True


def signal_number(name: str) -> int:
    """TERM, SIGTERM or 15 → 15."""
    if name.isdigit():
        return int(name)
    return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]


def main(arguments: Sequence[str]) -> int:
    """Become the command; returns an exit status only when that is impossible."""
    parent_before = os.getppid()
    parser = argparse.ArgumentParser(prog="child")
    parser.add_argument("--death-signal", default="KILL", help="sent when the parent ends")
    parser.add_argument("--lock", help="file to hold while the command lives")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)

    die_with_parent(signal_number(options.death_signal))
    if is_orphan(os.environ.get(PARENT_VARIABLE), parent_before):
        return EXIT_ORPHAN
    os.umask(UMASK)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if options.lock and not take_lock(options.lock):
        sys.stderr.write(f"{options.lock} is held by another process\n")
        return EXIT_LOCKED
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    # Python ignores SIGPIPE and its children would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(options.command[0], options.command)
    except OSError as error:
        sys.stderr.write(f"can't start {options.command[0]}: {error.strerror}\n")
        return EXIT_NOT_FOUND


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
