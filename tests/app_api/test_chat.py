"""Chatting through the API alone: cases C05 and C06, and what a lost reply costs: nothing."""

from __future__ import annotations

from typing import Any

import pytest

from conversations import selectors, services
from conversations.edge.acts import ACTS, act_run
from conversations.edge.schemas import In
from conversations.models import Turn
from inference.protocol.events import Cancelled
from llamaweb.lib.errors import InvalidError
from tests.app_api.world import Person
from tests.conversations.driving import Engine

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]


class Chatter(Person):
    """A person whose questions are answered at once."""

    def __init__(self, user: Any, engine: Engine) -> None:
        super().__init__(user)
        self.engine = engine

    def answer(self, result: dict[str, Any], text: str) -> dict[str, Any]:
        self.engine.answer(Turn.objects.get(id=result["turn_id"]), text)
        return result

    def say(self, text: str, **values: Any) -> dict[str, Any]:
        body = {"parts": [{"text": text}], **values}
        return self.answer(self.json("POST", "turns", body), f"answer to {text}")

    def state(self, chat_id: str) -> dict[str, Any]:
        return dict(self.json("GET", f"conversations/{chat_id}"))

    def shown(self, chat_id: str) -> list[str]:
        """The texts of the current branch, as the browser finds them."""
        state = self.state(chat_id)
        messages = {message["id"]: message for message in state["messages"]}
        texts: list[str] = []
        at = state["conversation"]["current_leaf_id"]
        while at is not None:
            texts.append("".join(part["text"] for part in messages[at]["parts"]))
            at = messages[at]["parent_id"]
        return texts[::-1]


@pytest.fixture
def chatter(alice: Any, engine: Engine) -> Chatter:
    return Chatter(alice, engine)


@pytest.fixture
def chat_id(chatter: Chatter) -> str:
    """Ten messages."""
    chat_id: str = chatter.say("question 0")["conversation_id"]
    for number in range(1, 5):
        chatter.say(f"question {number}", conversation_id=chat_id)
    return chat_id


def full(*questions: str) -> list[str]:
    return [text for question in questions for text in (question, f"answer to {question}")]


OLD = full(*(f"question {number}" for number in range(5)))


def texts(state: dict[str, Any]) -> set[str]:
    return {part["text"] for message in state["messages"] for part in message["parts"]}


def find(chatter: Chatter, chat_id: str, text: str) -> str:
    """The message with this text."""
    return next(
        str(message["id"])
        for message in chatter.state(chat_id)["messages"]
        if message["parts"] and message["parts"][0]["text"] == text
    )


def test_c05_with_a_branch(chatter: Chatter, chat_id: str) -> None:
    assert chatter.shown(chat_id) == OLD
    old_leaf = chatter.state(chat_id)["conversation"]["current_leaf_id"]
    second = find(chatter, chat_id, "question 1")
    edited = chatter.json("POST", f"messages/{second}/edit", {"parts": [{"text": "changed"}]})
    chatter.answer(edited, "answer to changed")
    new = full("question 0", "changed")
    assert chatter.shown(chat_id) == new
    assert texts(chatter.state(chat_id)) == {*OLD, *new}

    def select(message_id: str) -> None:
        chatter.json("PUT", f"conversations/{chat_id}/leaf", {"message_id": message_id})

    select(second)
    assert chatter.shown(chat_id) == OLD  # with its full tail
    select(edited["message_id"])
    assert chatter.shown(chat_id) == new
    select(old_leaf)
    assert chatter.shown(chat_id) == OLD


def test_c05_an_answer_with_a_branch(chatter: Chatter, chat_id: str) -> None:
    second = find(chatter, chat_id, "answer to question 0")
    edited = chatter.json("POST", f"messages/{second}/edit", {"parts": [{"text": "better"}]})
    assert edited["turn_id"] is None
    assert chatter.shown(chat_id) == ["question 0", "better"]
    chatter.say("and then?", conversation_id=chat_id)
    branch = ["question 0", "better", *full("and then?")]
    assert chatter.shown(chat_id) == branch
    chatter.json("PUT", f"conversations/{chat_id}/leaf", {"message_id": second})
    assert chatter.shown(chat_id) == OLD
    chatter.json("PUT", f"conversations/{chat_id}/leaf", {"message_id": edited["message_id"]})
    assert chatter.shown(chat_id) == branch


@pytest.mark.parametrize("text", ["question 0", "answer to question 0"])
def test_c05_in_place(text: str, chatter: Chatter, chat_id: str) -> None:
    before = chatter.state(chat_id)
    body = {"parts": [{"text": "replaced"}], "in_place": True}
    result = chatter.json("POST", f"messages/{find(chatter, chat_id, text)}/edit", body)
    assert result["turn_id"] is None
    assert chatter.shown(chat_id) == ["replaced" if item == text else item for item in OLD]
    since = f"conversations/{chat_id}/changes?since={before['revision']}"
    changes = chatter.json("GET", since)
    assert [message["id"] for message in changes["messages"]] == [result["message_id"]]
    assert changes["messages"][0]["edited_at"]
    assert changes["revision"] == result["revision"] == before["revision"] + 1


def test_c06_deleted_while_it_is_streaming(chatter: Chatter, chat_id: str, engine: Engine) -> None:
    body = {"conversation_id": chat_id, "parts": [{"text": "going on"}]}
    result = chatter.json("POST", "turns", body)
    engine.claim()
    turn = Turn.objects.get(id=result["turn_id"])
    chatter.json("DELETE", f"messages/{result['answer_id']}")
    assert engine.cancelled() == {turn.generation_id: "deleted"}
    engine.end(turn.generation_id, Cancelled("deleted"), "too late")
    services.turn_advance(turn.generation_id)
    services.turn_sweep()
    assert chatter.shown(chat_id) == [*OLD, "going on"]
    state = chatter.state(chat_id)
    assert result["answer_id"] not in {message["id"] for message in state["messages"]}
    assert not state["conversation"]["is_running"]
    changes = chatter.json("GET", f"conversations/{chat_id}/changes?since={result['revision']}")
    gone = next(row for row in changes["messages"] if row["id"] == result["answer_id"])
    assert (gone["is_deleted"], gone["parts"]) == (True, [])


def test_a_lost_reply_costs_nothing(chatter: Chatter) -> None:
    body = {"parts": [{"text": "once"}], "client_key": "k-1"}
    first = chatter.json("POST", "turns", body)
    assert chatter.json("POST", "turns", body) == first
    page = chatter.json("GET", "conversations")
    assert [row["id"] for row in page["conversations"]] == [first["conversation_id"]]
    assert page["conversations"][0]["is_running"]


def test_the_whole_way_of_a_turn(chatter: Chatter, engine: Engine) -> None:
    result = chatter.json("POST", "turns", {"parts": [{"text": "hi"}]})
    engine.claim()
    turn = Turn.objects.get(id=result["turn_id"])
    assert chatter.json("POST", f"turns/{turn.id}/stop")["was_stopped"]
    assert turn.generation_id in engine.cancelled()
    engine.end(turn.generation_id, Cancelled("user"), "half")
    services.turn_advance(turn.generation_id)
    assert not chatter.json("POST", f"turns/{turn.id}/stop")["was_stopped"]
    state = chatter.state(result["conversation_id"])
    assert (state["turns"][0]["state"], state["turns"][0]["can_retry"]) == ("cancelled", True)
    assert state["messages"][1]["parts"][0]["text"] == "half"
    again = chatter.answer(chatter.json("POST", f"turns/{turn.id}/retry"), "whole")
    assert chatter.shown(result["conversation_id"]) == ["hi", "whole"]
    other = chatter.json("POST", f"messages/{again['answer_id']}/regenerate", {})
    chatter.answer(other, "another")
    assert chatter.shown(result["conversation_id"]) == ["hi", "another"]


def test_the_list_in_pages(chatter: Chatter) -> None:
    made = [chatter.json("POST", "conversations", {"title": str(n)}) for n in range(5)]
    seen, query = [], "?limit=2"
    while query:
        page = chatter.json("GET", f"conversations{query}")
        seen += [row["id"] for row in page["conversations"]]
        query = f"?limit=2&before={page['next']}" if page["next"] else ""
    assert seen == [result["conversation_id"] for result in reversed(made)]


def test_delete_and_undo(chatter: Chatter, chat_id: str) -> None:
    chatter.json("DELETE", f"conversations/{chat_id}")
    assert chatter.ask("GET", f"conversations/{chat_id}").status_code == 404
    assert chatter.ask("DELETE", f"conversations/{chat_id}").status_code == 404
    chatter.json("POST", f"conversations/{chat_id}/restore")
    assert chatter.shown(chat_id) == OLD


def test_a_long_one_is_read_in_pages(
    chatter: Chatter, chat_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = chatter.state(chat_id)
    monkeypatch.setattr(selectors, "MAX_SNAPSHOT", 3)
    monkeypatch.setattr(
        selectors.conversation_changes, "__kwdefaults__", {"limit": 4, "max_bytes": None}
    )
    part = chatter.state(chat_id)
    assert part["has_more"]
    rows = {row["id"]: row for row in part["messages"]}
    while part["has_more"]:
        part = chatter.json("GET", f"conversations/{chat_id}/changes?since={part['revision']}")
        rows |= {row["id"]: row for row in part["messages"]}
    assert rows == {row["id"]: row for row in whole["messages"]}
    assert part["revision"] == whole["revision"]


def test_acts_by_name(alice: Any, engine: Engine) -> None:
    result = act_run(alice, "turn.start", {"parts": [{"text": "hi"}]})
    assert result.turn_id
    for name, args, param in [
        ("nothing", {}, "name"),
        ("turn.stop", {}, "turn_id"),
        ("turn.stop", {"turn_id": "a", "b": 1}, "b"),
        ("turn.start", {"parts": [{"text": "x", "type": "y"}]}, "parts[0].type"),
    ]:
        with pytest.raises(InvalidError) as caught:
            act_run(alice, name, args)
        assert caught.value.param == param
    assert all(issubclass(act.schema, In) for act in ACTS.values())
    assert len(ACTS) == 12
