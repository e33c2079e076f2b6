"""The administration's sidebar and unfold's settings. Links show only to who may open them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _


def _may_view(label: str) -> Callable[[HttpRequest], bool]:
    app, _dot, model = label.partition(".")

    def permission(request: HttpRequest) -> bool:
        user = request.user
        return any(user.has_perm(f"{app}.{act}_{model}") for act in ("view", "change"))

    return permission


def _item(title: Any, icon: str, label: str, view: str = "") -> dict[str, Any]:
    app, _dot, model = label.partition(".")
    name = view or f"{app}_{model}_changelist"
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{name}"),
        "permission": _may_view(label),
    }


NAVIGATION: list[dict[str, Any]] = [
    {
        "items": [
            {
                "title": _("Back to the chat"),
                "icon": "arrow_back",
                "link": "/",
                "active": lambda _request: False,
            }
        ],
    },
    {
        "title": _("People"),
        "items": [
            _item(_("Users"), "person", "accounts.user"),
            _item(_("Groups"), "group", "auth.group"),
            _item(_("API keys"), "key", "accounts.apikey"),
            _item(_("Invites"), "mail", "accounts.invite"),
            _item(_("Sessions"), "devices", "usersessions.usersession"),
            _item(_("Second factors"), "lock", "mfa.authenticator"),
            _item(_("Site settings"), "tune", "accounts.sitesettings"),
        ],
    },
    {
        "title": _("Models"),
        "items": [
            _item(_("Models"), "neurology", "inference.modelconfig"),
            _item(_("Model files"), "hard_drive", "inference.modelfile"),
            _item(_("Upstream servers"), "dns", "inference.upstream"),
        ],
    },
    {
        "title": _("Engines"),
        "items": [
            _item(_("Engines"), "memory", "inference.modelconfig", "engines"),
            _item(_("Generations"), "bolt", "inference.generation"),
        ],
    },
    {
        "title": _("Conversations"),
        "items": [_item(_("Conversations"), "forum", "conversations.conversation")],
    },
    {
        "title": _("Audit"),
        "items": [_item(_("Audit log"), "history", "accounts.auditevent")],
    },
]

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "llamaweb",
    "SITE_HEADER": "llamaweb",
    "SITE_SUBHEADER": _("Administration"),
    "SITE_URL": None,
    "SITE_SYMBOL": "graphic_eq",
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_BACK_BUTTON": True,
    "STYLES": [lambda _request: static("llamaweb/admin.css")],
    "SIDEBAR": {
        "show_search": False,
        "show_all_applications": False,
        "navigation": NAVIGATION,
    },
    "ACCOUNT": {
        "navigation": [
            {"title": _("Back to the chat"), "link": "/"},
            {"title": _("Change password"), "link": reverse_lazy("account_change_password")},
        ]
    },
}
