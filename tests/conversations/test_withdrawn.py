"""Who may not write any more has nothing written for them: in the act, or by the next sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conversations import services
from conversations.models import Conversation, Turn
from llamaweb.accounts.models import User
from llamaweb.lib.errors import ForbiddenError, NotFoundError
from tests.conversations.driving import Engine, say, text

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def turn(alice: Any, bob: Any, chat: Conversation, engine: Engine) -> Turn:
    """An answer that is being written for bob in alice's conversation."""
    services.share_grant(user=alice, conversation_id=chat.id, to=bob, can_write=True)
    turn = say(bob, chat)
    engine.claim()
    return turn


def stopped(turn: Turn, engine: Engine) -> bool:
    """Whether the engine is told at once; then it obeys."""
    if turn.generation_id not in engine.cancelled():
        return False
    from inference.protocol.events import Cancelled

    engine.end(turn.generation_id, Cancelled("user"), "so far")
    assert services.turn_advance(turn.generation_id)
    turn.refresh_from_db()
    assert (turn.state, text(turn.answer)) == ("cancelled", "so far")
    return True


@pytest.mark.parametrize(
    "act",
    [
        lambda alice, bob, chat: services.share_revoke(user=alice, conversation_id=chat.id, to=bob),
        lambda alice, bob, chat: services.share_grant(
            user=alice, conversation_id=chat.id, to=bob, can_write=False
        ),
    ],
    ids=["share revoked", "may only read"],
)
def test_the_act_stops_it(
    act: Callable[..., Any], alice: Any, bob: Any, chat: Conversation, turn: Turn, engine: Engine
) -> None:
    act(alice, bob, chat)
    assert stopped(turn, engine)
    with pytest.raises((ForbiddenError, NotFoundError)):
        say(bob, chat)


def test_a_share_that_goes_on_stops_nothing(
    alice: Any, bob: Any, carol: Any, chat: Conversation, turn: Turn, engine: Engine
) -> None:
    services.share_grant(user=alice, conversation_id=chat.id, to=bob, can_write=True)
    services.share_grant(user=alice, conversation_id=chat.id, to=carol)
    services.share_revoke(user=alice, conversation_id=chat.id, to=carol)
    assert services.turn_sweep()["withdrawn"] == 0
    assert not stopped(turn, engine)


@pytest.mark.parametrize("who", ["bob", "alice"])
def test_the_sweep_stops_it_when_the_account_is_off(
    who: str, alice: Any, chat: Conversation, turn: Turn, engine: Engine
) -> None:
    if who == "alice":
        engine.end(turn.generation_id)
        assert services.turn_advance(turn.generation_id)
        turn = say(alice, chat)
        engine.claim()
    User.objects.filter(username=who).update(is_active=False)
    assert not stopped(turn, engine)
    assert services.turn_sweep()["withdrawn"] == 1
    assert stopped(turn, engine)
    assert services.turn_sweep()["withdrawn"] == 0


def test_the_sweep_finds_what_lost_its_share_by_other_ways(
    bob: Any, chat: Conversation, turn: Turn, engine: Engine
) -> None:
    chat.shares.all().delete()
    assert services.turn_sweep()["withdrawn"] == 1
    assert stopped(turn, engine)
