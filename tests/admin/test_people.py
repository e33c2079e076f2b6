"""What is done to people, keys, invites and settings; each act with its audit event."""

from __future__ import annotations

import re

import pytest
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import Group, Permission
from django.test import Client

from llamaweb.accounts.models import AuditAction, AuditEvent, Invite, SiteSettings, User
from llamaweb.accounts.site_services import signup_mode_set
from tests.admin.conftest import client_of
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db
USER = "/admin/accounts/user/"


def events(*actions: str) -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action__in=actions).order_by("id"))


def session_of(user: User) -> Client:
    """A signed-in browser whose session is known."""
    client = client_of(user)
    UserSession.objects.create(
        user=user,
        session_key=client.session.session_key,
        ip="192.0.2.7",
        user_agent="test",
        data={},
    )
    return client


def is_signed_in(client: Client) -> bool:
    return bool(client.get("/api/app/me").status_code == 200)


def test_ending_all_sessions(admin: Client, alice: User) -> None:
    theirs = session_of(alice)
    assert is_signed_in(theirs)
    admin.post(f"{USER}{alice.pk}/act/end-sessions/")
    assert not is_signed_in(theirs)
    (event,) = events(AuditAction.SESSIONS_ENDED)
    assert (event.actor_name, event.object_id) == ("root", str(alice.pk))


@pytest.mark.parametrize("way", ["act", "action"])
def test_deactivating_signs_out_and_is_undone(
    admin: Client, alice: User, root: User, way: str
) -> None:
    theirs = session_of(alice)
    if way == "act":
        admin.post(f"{USER}{alice.pk}/act/deactivate/")
    else:
        form = {"action": "deactivate", "_selected_action": [alice.pk, root.pk]}
        admin.post(USER, form)
    alice.refresh_from_db()
    root.refresh_from_db()
    assert (alice.is_active, root.is_active) == (False, True)
    assert not UserSession.objects.filter(user=alice).exists()
    assert [e.action for e in AuditEvent.objects.order_by("id")] == [
        AuditAction.USER_CHANGED,
        AuditAction.SESSIONS_ENDED,
    ]
    admin.post(f"{USER}{alice.pk}/act/activate/")
    alice.refresh_from_db()
    assert alice.is_active
    assert not is_signed_in(theirs)


def test_groups(admin: Client) -> None:
    permission = Permission.objects.get(codename="view_apikey")
    admin.post("/admin/auth/group/add/", {"name": "helpers", "permissions": [permission.pk]})
    group = Group.objects.get()
    base = f"/admin/auth/group/{group.pk}/"
    admin.post(f"{base}change/", {"name": "helpers", "permissions": [permission.pk]})
    admin.post(f"{base}change/", {"name": "friends", "permissions": []})
    admin.post(f"{base}delete/", {"post": "yes"})
    found = [(event.action, event.detail) for event in AuditEvent.objects.order_by("id")]
    assert found == [
        ("group.created", {"name": "helpers", "name_before": ""}),
        ("group.changed", {"name": "helpers", "permissions": ["accounts.view_apikey"]}),
        ("group.changed", {"name": "friends", "name_before": "helpers"}),
        ("group.changed", {"name": "friends", "permissions": []}),
        ("group.deleted", {"name": "friends", "num_members": 0}),
    ]


def editor() -> User:
    """May edit users and groups, and isn't a superuser."""
    user = UserFactory.create(username="editor", is_staff=True)
    wanted = ("view_user", "change_user", "delete_user", "change_group", "view_group", "add_group")
    user.user_permissions.add(*Permission.objects.filter(codename__in=wanted))
    return user


def test_nobody_makes_themselves_more_than_they_are(root: User, alice: User) -> None:
    user = editor()
    client = client_of(user)
    group = Group.objects.create(name="all")
    form = {"username": "editor", "is_active": "on", "is_staff": "on", "is_superuser": "on"}
    form |= {"groups": str(group.pk)}
    assert client.post(f"{USER}{user.pk}/change/", form).status_code == 302
    user.refresh_from_db()
    assert not user.is_superuser
    assert not user.groups.exists()
    assert user.has_perm("accounts.change_user")
    for url, data in (
        (f"{USER}{root.pk}/change/", {"username": "x"}),
        (f"{USER}{root.pk}/password/", {"password1": "a-b-c-d-1", "password2": "a-b-c-d-1"}),
        (f"{USER}{root.pk}/delete/", {"post": "yes"}),
        (f"{USER}{root.pk}/act/deactivate/", {}),
        (f"{USER}{user.pk}/delete/", {"post": "yes"}),
        (f"/admin/auth/group/{group.pk}/change/", {"name": "all"}),
        ("/admin/auth/group/add/", {"name": "more"}),
    ):
        assert client.post(url, data).status_code == 403, url
    chosen = {"action": "delete_selected", "_selected_action": [root.pk], "post": "yes"}
    client.post(USER, chosen)
    assert User.objects.filter(pk=root.pk).exists()
    assert client.post(f"{USER}{alice.pk}/act/deactivate/").status_code == 302
    alice.refresh_from_db()
    assert not alice.is_active


def test_an_invites_link_is_shown_once_and_works(admin: Client) -> None:
    response = admin.post("/admin/accounts/invite/add/", {"note": "for <b>dora</b>"})
    page = response.content.decode()
    found = re.search(r"http://[^<\s]+invite=[\w-]+", page)
    assert found is not None
    assert "no-store" in response["Cache-Control"]
    invite = Invite.objects.get()
    raw = found[0].partition("invite=")[2]
    assert raw not in str(Invite.objects.values())
    assert raw not in str(AuditEvent.objects.values())
    for url in ("/admin/accounts/invite/", f"/admin/accounts/invite/{invite.pk}/change/"):
        assert raw not in admin.get(url).content.decode()
    assert "invites let nobody in" in page
    signup_mode_set(mode="invite", actor=None)
    assert client_of(None).get(f"/accounts/signup/?invite={raw}").status_code == 200
    (event,) = events(AuditAction.INVITE_CREATED)
    assert event.actor_name == "root"


def test_revoking_an_invite(admin: Client) -> None:
    admin.post("/admin/accounts/invite/add/", {"note": ""})
    invite = Invite.objects.get()
    for _ in range(2):
        admin.post(f"/admin/accounts/invite/{invite.pk}/act/revoke/")
    invite.refresh_from_db()
    assert invite.revoked_at is not None
    assert len(events(AuditAction.INVITE_REVOKED)) == 1


def test_an_expiry_in_the_past_is_refused(admin: Client) -> None:
    form = {"note": "", "expires_at_0": "2001-01-01", "expires_at_1": "00:00:00"}
    page = admin.post("/admin/accounts/invite/add/", form, follow=True).content.decode()
    assert "the expiry must lie in the future" in page
    assert not Invite.objects.exists()


def test_who_may_sign_up(admin: Client) -> None:
    url = admin.get("/admin/accounts/sitesettings/")["Location"]
    admin.post(url, {"signup_mode": "open"})
    assert SiteSettings.objects.get().signup_mode == "open"
    admin.post(url, {"signup_mode": "open"})
    assert len(events(AuditAction.SITE_SETTINGS_CHANGED)) == 1
    assert admin.post(url, {"signup_mode": "whatever"}).status_code == 200
    assert SiteSettings.objects.get().signup_mode == "open"


def test_second_factors_show_no_secret_and_can_be_taken_away(admin: Client, alice: User) -> None:
    row = Authenticator.objects.create(user=alice, type="totp", data={"secret": "JBSWY3DPEHPK3PXP"})
    base = f"/admin/mfa/authenticator/{row.pk}/"
    assert "JBSWY3DP" not in admin.get(f"{base}change/").content.decode()
    assert admin.post(f"{base}delete/", {"post": "yes"}).status_code == 403
    admin.post(f"{base}act/remove/")
    assert not Authenticator.objects.exists()
    assert len(events(AuditAction.SECOND_FACTOR_REMOVED)) == 1


def test_sessions_show_no_key_and_can_be_ended(admin: Client, alice: User) -> None:
    theirs = session_of(alice)
    row = UserSession.objects.get(user=alice)
    base = f"/admin/usersessions/usersession/{row.pk}/"
    assert row.session_key not in admin.get(f"{base}change/").content.decode()
    admin.post(f"{base}act/end/")
    assert not is_signed_in(theirs)
    (event,) = events(AuditAction.SESSIONS_ENDED)
    assert event.actor_name == "root"


def test_the_audit_log_is_filtered(admin: Client, alice: User) -> None:
    admin.post(f"{USER}{alice.pk}/act/deactivate/")
    admin.post("/admin/accounts/invite/add/", {"note": ""})
    base = "/admin/accounts/auditevent/"

    def ids(query: str) -> set[str]:
        page = admin.get(f"{base}?{query}").content.decode()
        return set(re.findall(r"/auditevent/(\d+)/change/", page))

    everything = {str(event.pk) for event in AuditEvent.objects.all()}
    assert ids("") == everything
    (invite,) = events(AuditAction.INVITE_CREATED)
    assert ids("act=invite.created") == {str(invite.pk)}
    assert ids("actor_name__icontains=nobody") == set()
    assert ids("at__gte=2999-01-01T00:00:00Z") == set()
    assert ids("q=root") == everything
