"""Authentication of the browser app: a session, never a key; writing needs a CSRF token, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpRequest
from ninja.security.base import AuthBase
from ninja.utils import check_csrf

from llamaweb.accounts.database import in_database
from llamaweb.lib.errors import AuthenticationError, ForbiddenError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

SIGNED_OUT = "you are signed out; sign in again"
NO_CSRF = "the page is out of date; reload it and try again"


class SessionAuth(AuthBase):
    """ninja's `auth=`: sets `request.auth` to the signed-in, active `User`.

    Raises:
        AuthenticationError: no living session, whatever else the request carries.
        ForbiddenError: it changes something and doesn't prove that it comes from our own page.
    """

    openapi_type = "apiKey"
    openapi_in = "cookie"
    openapi_name = "llamaweb_session"

    def __init__(self) -> None:
        super().__init__()
        self.is_async = True

    async def __call__(self, request: HttpRequest) -> User:
        """See the class."""
        user = await in_database(_user)(request)
        if user is None:
            raise AuthenticationError(SIGNED_OUT)
        if check_csrf(request) is not None:
            raise ForbiddenError(NO_CSRF)
        return user


def _user(request: HttpRequest) -> User | None:
    user = request.user
    if not user.is_authenticated or not user.is_active:
        return None
    return user
