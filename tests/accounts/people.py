"""A person with a browser: clients, forms and side-by-side requests for tests of pages."""

from __future__ import annotations

import ipaddress
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import connection
from django.test import Client

PASSWORD = "correct-horse-7"
T = TypeVar("T")


def signed_in(name: str, password: str = "password", **environ: Any) -> Client:
    """A browser in which `name` has signed in through the page."""
    client = Client(**environ)
    form = {"login": name, "password": password}
    response = client.post("/accounts/login/", form)
    assert response.status_code == 302, response.content.decode()
    return client


def confirm(client: Client, password: str = "password") -> None:
    """Give the password once more, as what touches the second factor needs."""
    assert client.post("/accounts/reauthenticate/", {"password": password}).status_code == 302


def fresh_address() -> str:
    """One that no throttle has seen: counters outlive a test."""
    return str(ipaddress.IPv4Address(0x0A000000 + secrets.randbelow(2**24)))


def side_by_side(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """The results of `jobs`, which start at the same moment, each with its own connection."""
    barrier = threading.Barrier(len(jobs))

    def run(job: Callable[[], T]) -> T:
        barrier.wait(10)
        try:
            return job()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result(60) for future in [pool.submit(run, job) for job in jobs]]
