"""The first person's way, from the console's link to a chat on the starter model."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from playwright.sync_api import Browser, Page, expect

from tests.browser.journey import ANSWER_MS, DESK, SOON_MS, Chat
from tests.stack import Stack
from tests.text.schema.judge import faults
from tests.text.schema.suite import SMALL, WORD, closed

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.model, pytest.mark.timeout(420)]

ENV = {"LLAMAWEB_ENGINE": "llama", "LLAMAWEB_ENGINE_THREADS": "1"}
HAS_NOBODY = True  # at first
LINK_RE = r"http://\S+/setup/\S+/"
QUESTION = "Write one sentence about the sea."
# Drawn by chance, one answer in some dozens of a model this small never ends by itself.
GREEDY = """
from inference.models import ModelConfig
ModelConfig.objects.filter(is_starter=True).update(sampling={"temperature": 0})
"""


@pytest.fixture(scope="module")
def alice(browser: Browser, stack: Stack) -> Chat:
    """The first administrator, made through the link on the console."""
    stack.manage("shell", "-v", "0", "-c", GREEDY)
    page = DESK.context(browser).new_page()
    page.goto(setup_link(stack))
    expect(page.get_by_role("heading", level=1)).to_have_text("Welcome to llamaweb")
    expect(page.locator("main")).to_contain_text("tiny demo")
    page.get_by_label("Username").fill("alice")
    for field in page.locator("input[type=password]").all():
        field.fill(stack.password("alice"))
    page.get_by_role("button", name="Create the account").click()
    page.wait_for_url(f"{stack.base_url}/")
    return Chat(page, stack)


def setup_link(stack: Stack) -> str:
    return stack.wait_output(LINK_RE).group(0)


def test_the_link_makes_the_first_administrator_and_lands_in_the_chat(alice: Chat) -> None:
    expect(alice.page.locator("#message")).to_be_focused()
    expect(alice.page.get_by_text("tiny demo")).to_be_visible()
    alice.page.get_by_role("link", name="Add a better one in the administration").click()
    expect(alice.page).to_have_url(re.compile(r"/admin/"))
    assert alice.page.goto(f"{alice.stack.base_url}/").ok  # type: ignore[union-attr]


def test_the_link_works_once(alice: Chat, browser: Browser) -> None:
    page = DESK.context(browser).new_page()
    response = page.goto(setup_link(alice.stack))
    assert response is not None
    assert response.status == 404
    assert page.locator("input[type=password]").count() == 0


def test_an_answer_of_the_starter_model_is_stored_as_it_was_shown(alice: Chat) -> None:
    alice.send(QUESTION)
    expect(alice.questions.last).to_contain_text(QUESTION)
    shown = alice.wait_done()
    stored = alice.stored_answer()
    assert shown
    assert stored["state"] == "done"
    assert stored["completion_tokens"] > 0
    assert normal(shown) == normal(plain(alice.page, stored["text"]))
    expect(alice.page.get_by_role("navigation", name="Chats")).to_contain_text(QUESTION)


def test_another_answer_and_another_question_keep_what_was_there(alice: Chat) -> None:
    alice.act_on(alice.answers.last, "Answer anew")
    expect(alice.answers.last.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    alice.wait_done()
    alice.act_on(alice.questions.last, "Edit")
    form = alice.page.get_by_label("Edit the message")
    form.fill("Say hello.")
    alice.page.locator("form", has=form).get_by_role("button", name="Send").click()
    expect(alice.questions.last).to_contain_text("Say hello.")
    alice.wait_done()
    alice.act_on(alice.questions.last, "Previous version")
    expect(alice.questions.last).to_contain_text(QUESTION)
    expect(alice.answers.last.get_by_role("group", name="Version 2 of 2")).to_be_visible()


def test_another_tab_and_another_device_are_live(alice: Chat, browser: Browser) -> None:
    tab, device = alice.other_tab(), alice.other_device(browser)
    for chat in (tab, device):
        expect(chat.questions.last).to_contain_text(QUESTION)
    alice.send("Tell me about rivers.")
    for chat in (tab, device):
        expect(chat.questions.last).to_contain_text("rivers", timeout=SOON_MS)
    shown = alice.wait_done(ANSWER_MS)
    assert tab.wait_done() == shown
    assert device.wait_done() == shown
    tab.page.close()
    device.page.context.close()


def test_the_history_is_there_after_signing_out_and_in(alice: Chat) -> None:
    title = alice.page.title()
    alice.page.get_by_role("button", name="alice").click()
    alice.page.get_by_role("menuitem", name="Sign out").click()
    alice.page.wait_for_url("**/accounts/**")
    alice.page.goto(f"{alice.stack.base_url}/")
    alice.page.wait_for_url("**/accounts/login/**")
    again = Chat.of(alice.page.context, alice.stack)
    rows = again.page.get_by_role("navigation", name="Chats").get_by_role("link")
    rows.filter(has_text="Write one sentence").first.click()
    expect(again.questions.first).to_contain_text(QUESTION)
    assert again.page.title() == title


def test_somebody_else_sees_nothing_of_it(alice: Chat, browser: Browser) -> None:
    alice.page.reload()
    alice_again = Chat(alice.page.context.pages[-1], alice.stack)
    conversation_id = alice_again.id
    alice.stack.create_user("carol")
    carol = Chat.of(DESK.context(browser), alice.stack, "carol")
    expect(carol.page.get_by_role("navigation", name="Chats")).to_contain_text("will be listed")
    carol.page.goto(f"{alice.stack.base_url}/c/{conversation_id}")
    expect(carol.page.get_by_role("heading", name="This chat isn't here")).to_be_visible()
    assert carol.stored(conversation_id)[0] == 404
    assert "sea" not in carol.page.content()


PERSON = closed({"name": WORD, "age": SMALL}, "name", "age")


@pytest.fixture(scope="module")
def client(alice: Chat) -> OpenAI:
    """The official client with a key of alice's."""
    url, key = f"{alice.stack.base_url}/v1", alice.stack.create_key("alice")
    return OpenAI(base_url=url, api_key=key, max_retries=0, timeout=ANSWER_MS / 1000)


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        ({"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}, PERSON),
        ({"type": "json_object", "schema": {**PERSON, "title": "Person"}}, PERSON),
    ],
)
def test_an_answer_under_a_schema_is_the_same_streamed(
    client: OpenAI, form: Any, schema: Any
) -> None:
    asked: Any = {
        "model": "default",
        "messages": [{"role": "user", "content": "Tell me of somebody, in JSON."}],
        "response_format": form,
        "seed": 3,
        "temperature": 0,
        "max_tokens": 100,
    }
    whole = client.chat.completions.create(**asked).choices[0]
    chunks = list(client.chat.completions.create(**asked, stream=True))
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert whole.message.content == said
    assert whole.finish_reason == chunks[-1].choices[0].finish_reason == "stop"
    assert faults(schema, json.loads(said)) == []


def test_a_schema_that_cannot_be_kept_is_refused_by_path(client: OpenAI) -> None:
    schema = closed({"a": {"type": "array", "uniqueItems": True}})
    with pytest.raises(BadRequestError) as caught:
        client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": "hi"}],
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
            stream=True,
        )
    path = "response_format.json_schema.schema.properties.a.uniqueItems"
    assert caught.value.param == path


def plain(page: Page, markdown: str) -> str:
    """Markdown without its marks, roughly: the starter model writes little of it."""
    return re.sub(r"[*_`#>]|^\s*(?:[-+]|\d+\.)\s", "", markdown, flags=re.MULTILINE)


def normal(text: str) -> str:
    return re.sub(r"[\s*_`#>\-+]|\d+\.", "", text)
