"""From the start-up lines to the first administrator, on a whole server."""

from __future__ import annotations

import http.cookiejar
import re
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]
PASSWORD = "correct-horse-7"
TIMEOUT_S = 30.0


def printed_link(stack: Stack) -> str:
    stack.wait_ready()
    return stack.wait_output(r"first user: (http://\S+/setup/\S+/)")[1]


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def create_administrator(link: str) -> str:
    """Fill the form in; the address of the page that follows."""
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    with opener.open(link, timeout=TIMEOUT_S) as page:
        found = re.search(r'csrfmiddlewaretoken" value="(\w+)"', page.read().decode())
    assert found is not None
    form = {"username": "root", "password1": PASSWORD, "password2": PASSWORD}
    body = urllib.parse.urlencode(form | {"csrfmiddlewaretoken": found[1]}).encode()
    try:
        with opener.open(link, body, timeout=TIMEOUT_S) as response:
            return str(response.url)
    except urllib.error.HTTPError as error:  # the front end isn't built everywhere
        return str(error.url)


def test_a_restart_replaces_the_link_and_no_log_has_it(tmp_path: Path) -> None:
    with Stack(tmp_path / "data") as stack:
        first = printed_link(stack)
        assert status(first) == 200
        assert stack.stop() == 0
        assert stack.leftovers() == []
        stack.start()
        second = printed_link(stack)
        assert (status(first), status(second)) == (404, 200)
        assert create_administrator(second) == f"{stack.base_url}/"
        assert status(second) == 404
        logs = "".join(path.read_text() for path in stack.data_dir.joinpath("logs").iterdir())
    assert "/setup/…/" in logs
    for link in (first, second):
        assert link.split("/")[-2] not in logs
