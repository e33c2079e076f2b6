"""What an engine process may not do, set before it touches a model file (protocol rule 10)."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
MAX_OPEN_FILES = 1024


class OrphanedError(Exception):
    """The parent was gone before the death signal could be set."""


def harden(parent_pid: int) -> None:
    """Die with the parent, dump no core, gain no privileges, open few files.

    Args:
        parent_pid: the process whose end ends this one; 0 for a person's shell.

    Raises:
        OrphanedError: the parent has ended already.
    """
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if parent_pid:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:
            raise OrphanedError(f"parent {parent_pid} is gone")
