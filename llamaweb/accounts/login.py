"""Password login with a bound on guessing."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest

from llamaweb.accounts.models import User
from llamaweb.accounts.throttle import failed_logins, failed_logins_of_address, network


class ThrottledBackend(ModelBackend):
    """Users and passwords; refuses with BusyError after too many failures.

    Counted per address and user name, and more widely per address: an attacker locks out only
    themselves. A try is counted before its password is hashed and given back when it was right,
    so that tries side by side don't pass together.
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
        source = network(request.META.get("REMOTE_ADDR", "")) if request is not None else ""
        by_name, by_address = failed_logins(), failed_logins_of_address()
        by_name.take(source, username.casefold())  # first: who hammers one name blocks that only
        by_address.take(source)
        user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is not None:
            by_name.give_back(source, username.casefold())
            by_address.give_back(source)
        return user
