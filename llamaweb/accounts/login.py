"""Password login with a bound on guessing."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest

from llamaweb.accounts.models import User
from llamaweb.accounts.throttle import failed_logins


class ThrottledBackend(ModelBackend):
    """Users and passwords; refuses with BusyError after too many failures.

    Counted per address and user name: an attacker locks out only themselves.
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        """The user, or None; BusyError when this address has failed too often for this name."""
        if username is None or password is None:
            return None
        address = request.META.get("REMOTE_ADDR", "") if request is not None else ""
        throttle = failed_logins()
        throttle.check(address, username.casefold())
        user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is None:
            throttle.hit(address, username.casefold())
        return user
