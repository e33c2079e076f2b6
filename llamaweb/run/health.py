"""Watch GET /health until the server can answer, and say what it is waiting for."""

from __future__ import annotations

import http.client
import json
import queue
import ssl
import threading
import time

from llamaweb.env import Env

POLL_S = 0.5
CALL_S = 5.0
REMIND_S = 15.0
BODY_BYTES = 64 * 1024
NOBODY = "the web server does not answer yet"


def ask(env: Env) -> str | None:
    """Why the server isn't ready; None when it is."""
    host = {"0.0.0.0": "127.0.0.1"}.get(env.host, env.host)
    name = env.allowed_hosts[0].lstrip(".") if env.allowed_hosts else f"{host}:{env.port}"
    connection = _connection(env, host)
    try:
        connection.request("GET", "/health", headers={"Host": name, "Connection": "close"})
        response = connection.getresponse()
        body = response.read(BODY_BYTES)
    except ssl.SSLError:  # it answers, but only to those that have a certificate
        return NOBODY if env.tls_client_ca is None else None
    except (OSError, http.client.HTTPException):
        return NOBODY
    finally:
        connection.close()
    return None if response.status == 200 else _reason(response.status, body)


def _connection(env: Env, host: str) -> http.client.HTTPConnection:
    """To ourselves, on this machine: whose certificate it is doesn't matter."""
    if env.tls_certificate is None:
        return http.client.HTTPConnection(host, env.port, timeout=CALL_S)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, env.port, timeout=CALL_S, context=context)


def _reason(status: int, body: bytes) -> str:
    """The message of an error body, in whichever place it stands."""
    try:
        value = json.loads(body)
    except ValueError:
        return f"GET /health answers {status}"
    if isinstance(value, dict):
        error = value.get("error")
        inner = error.get("reason") or error.get("message") if isinstance(error, dict) else error
        found = inner or value.get("reason") or value.get("detail") or value.get("status")
        if found:
            return str(found)
    return f"GET /health answers {status}"


class Watch(threading.Thread):
    """Asks from a thread of its own, so that a slow answer holds up nothing.

    `news` has what to tell: a reason when it changes and every 15 s, and "" once, when ready.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(name="health", daemon=True)
        self.news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._env = env
        self._stopped = threading.Event()

    def run(self) -> None:
        """Until ready or stopped."""
        told, told_ts = NOBODY, time.monotonic()
        while not self._stopped.wait(POLL_S):
            reason = ask(self._env)
            if reason is None:
                self.news.put("")
                return
            if reason != told or time.monotonic() - told_ts > REMIND_S:
                told, told_ts = reason, time.monotonic()
                self.news.put(reason)

    def stop(self) -> None:
        """Ask no more; doesn't wait for an answer that is under way."""
        self._stopped.set()
