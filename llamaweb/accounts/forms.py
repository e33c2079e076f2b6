"""Forms of the account pages, where allauth's own aren't enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allauth.account.adapter import get_adapter
from allauth.account.forms import ChangePasswordForm as AllauthChangePasswordForm
from allauth.account.forms import SignupForm as AllauthSignupForm
from allauth.core import context
from django import forms
from django.contrib.auth.forms import UserCreationForm
from django.db import transaction
from django.http import HttpRequest

from llamaweb.accounts.invite_services import invite_take, invite_used
from llamaweb.accounts.models import SignupMode, User
from llamaweb.accounts.password_services import password_check
from llamaweb.accounts.site_services import site_settings
from llamaweb.accounts.tokens import MAX_TOKEN_LEN
from llamaweb.accounts.user_services import user_created
from llamaweb.lib.errors import BusyError, ForbiddenError

if TYPE_CHECKING:
    _UserCreationForm = UserCreationForm[User]
else:
    _UserCreationForm = UserCreationForm


class SignupForm(AllauthSignupForm):  # type: ignore[misc]
    """Sign-up; by invite, the invite is used up in the transaction that makes the user."""

    invite = forms.CharField(
        max_length=MAX_TOKEN_LEN, required=False, widget=forms.HiddenInput(), label=""
    )

    def save(self, request: HttpRequest) -> User:
        """Make the user.

        Raises:
            ForbiddenError: sign-up was closed, or the invite used, since the page was shown.
            IntegrityError: somebody else has just taken the name.
        """
        address = request.META.get("REMOTE_ADDR")
        with transaction.atomic():
            mode = site_settings().signup_mode
            invite = invite_take(self.cleaned_data["invite"]) if mode == SignupMode.INVITE else None
            if invite is None and mode != SignupMode.OPEN:
                raise ForbiddenError("sign-up is closed, or this invite isn't valid any more")
            user: User = super().save(request)
            user_created(user=user, actor=user, address=address)
            if invite is not None:
                invite_used(invite=invite, user=user, address=address)
        return user


class ChangePasswordForm(AllauthChangePasswordForm):  # type: ignore[misc]
    """The current password can't be guessed freely."""

    def clean_oldpassword(self) -> str:
        """See the class."""
        password: str = self.cleaned_data.get("oldpassword", "")
        address = context.request.META.get("REMOTE_ADDR")
        try:
            is_right = password_check(user=self.user, password=password, address=address)
        except BusyError as error:
            raise get_adapter().validation_error("too_many_login_attempts") from error
        if not is_right:
            raise get_adapter().validation_error("enter_current_password")
        return password


class SetupForm(_UserCreationForm):
    """The first administrator: a name and a password, typed twice."""

    class Meta:
        model = User
        fields = ("username",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].widget.attrs["autocomplete"] = "username"
