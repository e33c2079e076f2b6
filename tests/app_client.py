"""A browser's cookies without a browser: sign in and call /api/app/ of a running server."""

from __future__ import annotations

import http.cookiejar
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

TIMEOUT_S = 30.0
LOGIN_PATH = "/accounts/login/"
CSRF_COOKIE = "llamaweb_csrf"


class AppClient:
    """One person's session with the server at `base_url`."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def sign_in(self, username: str, password: str) -> None:
        """Through the login page.

        Raises:
            RuntimeError: the page came back instead.
        """
        self._open(urllib.request.Request(f"{self.base_url}{LOGIN_PATH}"))
        form = {"login": username, "password": password, "csrfmiddlewaretoken": self._csrf()}
        request = urllib.request.Request(
            f"{self.base_url}{LOGIN_PATH}",
            data=urllib.parse.urlencode(form).encode(),
            headers={"Referer": f"{self.base_url}{LOGIN_PATH}"},
        )
        with self._open(request) as response:
            if urllib.parse.urlsplit(response.url).path == LOGIN_PATH:
                raise RuntimeError(f"{username} can't sign in")

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A call below /api/app/: status and parsed body (None: empty)."""
        request = urllib.request.Request(
            f"{self.base_url}/api/app/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "X-CSRFToken": self._csrf()},
        )
        try:
            with self._open(request) as response:
                text = response.read()
                return response.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def cookie_header(self) -> str:
        """For clients that keep no cookies of their own."""
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.cookies)

    def _open(self, request: urllib.request.Request) -> Any:
        return self._opener.open(request, timeout=TIMEOUT_S)

    def _csrf(self) -> str:
        return next((c.value or "" for c in self.cookies if c.name == CSRF_COOKIE), "")
