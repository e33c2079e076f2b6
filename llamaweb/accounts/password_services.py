"""One's own password: checking it without free guesses, and changing it."""

from __future__ import annotations

from allauth.usersessions.models import UserSession
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _

from llamaweb.accounts.models import User
from llamaweb.accounts.session_services import sessions_end
from llamaweb.accounts.throttle import failed_logins, network
from llamaweb.accounts.user_services import user_password_changed
from llamaweb.lib.errors import InvalidError


def password_check(*, user: User, password: str, address: str | None) -> bool:
    """Whether it is the password of `user`; wrong ones count as failed logins.

    Raises:
        BusyError: too many wrong ones.
    """
    subject = (network(address or ""), user.get_username().casefold())
    throttle = failed_logins()
    throttle.take(*subject)
    is_right = user.check_password(password)
    if is_right:
        throttle.give_back(*subject)
    return is_right


def password_change(*, request: HttpRequest, current: str, new: str) -> None:
    """Change the password of who asks; their other sessions end, this one goes on.

    Raises:
        InvalidError: the current password is wrong ("current"), the new one too weak ("new").
        BusyError: too many wrong ones.
    """
    user = request.user
    assert isinstance(user, User)
    address = request.META.get("REMOTE_ADDR")
    if not password_check(user=user, password=current, address=address):
        raise _wrong()
    try:
        validate_password(new, user)
    except ValidationError as error:
        raise InvalidError(" ".join(error.messages), param="new") from error
    before = request.session.session_key
    with transaction.atomic():
        row = User.objects.select_for_update().get(pk=user.pk)
        if row.password != user.password:  # changed meanwhile, with it the key of this session
            if row.check_password(new):
                return  # the same again
            raise _wrong()
        password_set(user=user, new=new, keep_session=before, actor=user, address=address)
        update_session_auth_hash(request, user)  # the key changes with it
        request.session.save()
        UserSession.objects.filter(session_key=before).update(
            session_key=request.session.session_key
        )


def _wrong() -> InvalidError:
    return InvalidError(_("The current password is wrong."), param="current")


def password_set(
    *,
    user: User,
    new: str,
    keep_session: str | None = None,
    actor: User | None = None,
    address: str | None = None,
) -> None:
    """Give `user` the password `new`, which was validated, and end their sessions."""
    with transaction.atomic():
        user.set_password(new)
        user.save(update_fields=["password"])
        user_password_changed(user=user, actor=actor, address=address)
        sessions_end(user=user, keep=keep_session, address=address)
