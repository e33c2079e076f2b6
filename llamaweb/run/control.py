"""Tell supervisord what to do, through its socket."""

from __future__ import annotations

import http.client
import socket
import xmlrpc.client
from pathlib import Path
from xml.parsers.expat import ExpatError

CALL_S = 2.0


class ControlError(Exception):
    """supervisord can't be reached or refuses."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """As the base class, to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def call(path: Path, method: str, *arguments: str | bool) -> object:
    """Call `supervisor.<method>`, with a deadline.

    Raises:
        ControlError: no answer, or an error as the answer.
    """
    body = xmlrpc.client.dumps(arguments, f"supervisor.{method}")
    connection = _UnixConnection(path, CALL_S)
    try:
        connection.request("POST", "/RPC2", body, {"Content-Type": "text/xml"})
        (value,), _ = xmlrpc.client.loads(connection.getresponse().read().decode())
    except (OSError, http.client.HTTPException, xmlrpc.client.Error, ExpatError) as error:
        raise ControlError(f"{method}: {error}") from error
    finally:
        connection.close()
    return value


def stop_group(path: Path, name: str) -> None:
    """Ask for the end of all processes of a program; doesn't wait for it."""
    call(path, "stopProcessGroup", name, False)


def start_group(path: Path, name: str) -> None:
    """Start all processes of a program; doesn't wait until they run."""
    call(path, "startProcessGroup", name, False)


def stop_group_and_wait(path: Path, name: str) -> None:
    """End all processes of a program and wait for it, two seconds at most."""
    call(path, "stopProcessGroup", name, True)
