"""An administrator at work in the browser: models come, go and are watched (cases M, T11)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.axe import serious
from tests.browser.journey import ANSWER_MS, DESK, RECONNECT_MS, Chat, words
from tests.registry import gguf_files
from tests.registry.hub_source import Hub, found
from tests.registry.source import Source
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(300)]

ADD = "/admin/inference/modelconfig/add/"
MODEL = "/admin/inference/modelconfig/1/change/"
LONG = words(300)

# One slot and a slow engine: somebody has to wait.
ENV = {"LLAMAWEB_ENGINE_SLOTS": "1", "LLAMAWEB_MOCK_DELAY_MS": "25"}


@pytest.fixture(scope="module", autouse=True)
def hub() -> Iterator[Hub]:
    """The hub that this module's server asks."""
    with Source() as source:
        asked = {"LLAMAWEB_HUB_URL": source.origin, "LLAMAWEB_OUTBOUND_ALLOW": "127.0.0.1"}
        ENV.update(asked)
        yield Hub(source)
        for name in asked:
            del ENV[name]


def admin_page(chat: Chat, path: str) -> Page:
    page = chat.page.context.new_page()
    page.goto(chat.stack.base_url + path)
    return page


def card(engines: Page, name: str) -> Locator:
    """A model on the page of engines."""
    heading = engines.get_by_role("heading", name=name, exact=True)
    return engines.locator("section.lw-model", has=heading)


def fill_and_save(page: Page, source: str, name: str) -> None:
    page.locator("#id_source").fill(source)
    page.locator("#id_name").fill(name)
    page.locator("#id_load").uncheck(force=True)
    page.get_by_role("button", name="Save", exact=True).click()


def test_a_model_is_added_by_its_path_and_made_the_default(alice: Chat, tmp_path: Path) -> None:
    page = admin_page(alice, ADD)
    fill_and_save(page, str(tmp_path / "none.gguf"), "tiny")
    form = page.locator("#modelconfig_form")
    expect(form).to_contain_text("the file can't be read")
    expect(page).to_have_url(re.compile(re.escape(ADD)))
    (tmp_path / "text.gguf").write_text("not a model")
    fill_and_save(page, str(tmp_path / "text.gguf"), "tiny")
    expect(form).to_contain_text("this is not a GGUF file")
    expect(page).to_have_url(re.compile(re.escape(ADD)))
    (tmp_path / "tiny.gguf").write_bytes(gguf_files.model())
    fill_and_save(page, str(tmp_path / "tiny.gguf"), "tiny")
    expect(page.get_by_text("tiny was added.")).to_be_visible()
    page.get_by_role("button", name="Make it the default").click()
    expect(page.get_by_text("tiny is the default model.")).to_be_visible()
    engines = admin_page(alice, "/admin/engines/")
    expect(card(engines, "tiny")).to_contain_text("default")
    expect(card(engines, "tiny")).to_contain_text("on demand")
    expect(card(engines, "mock").locator("[data-f=default]")).to_be_hidden()
    mock = admin_page(alice, MODEL)
    mock.get_by_role("button", name="Make it the default").click()
    expect(mock.get_by_text("mock is the default model.")).to_be_visible()
    expect(card(engines, "mock").locator("[data-f=default]")).to_be_visible()


def test_a_model_is_uploaded_from_this_computer(alice: Chat, tmp_path: Path) -> None:
    page = admin_page(alice, "/admin/inference/modelfile/")
    page.get_by_role("link", name="Upload a model").click()
    assert serious(page) == []
    (tmp_path / "sent.gguf").write_bytes(gguf_files.model(num_values=1_500_000))  # two pieces
    page.get_by_label("GGUF file").set_input_files(tmp_path / "sent.gguf")
    page.get_by_label("Name of the model").fill("mock")
    page.get_by_label("Load it as soon as it is there").uncheck()
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.locator("#upload-problem")).to_contain_text("there is a model of this name already")
    page.get_by_label("Name of the model").fill("sent")
    page.get_by_role("button", name="Upload", exact=True).click()
    row = page.locator("#result_list tr", has_text="sent")
    expect(row).to_contain_text("ready", timeout=RECONNECT_MS)
    models = admin_page(alice, "/admin/inference/modelconfig/")
    expect(models.locator("#result_list tr", has_text="sent")).to_contain_text("on demand")


def test_every_way_to_add_is_found_and_fit_for_all(alice: Chat) -> None:
    page = admin_page(alice, ADD)
    assert serious(page) == []
    for way in ("Search the hub", "Upload a model", "Add an upstream server"):
        page.get_by_role("link", name=way).click()
        expect(page).not_to_have_url(re.compile(f"{re.escape(ADD)}$"))
        assert serious(page) == [], way
        page.goto(alice.stack.base_url + ADD)
    page.goto(f"{alice.stack.base_url}/admin/inference/modelfile/")
    assert serious(page) == []


def test_engines_show_slots_and_who_waits(alice: Chat, browser: Browser, stack: Stack) -> None:
    engines = admin_page(alice, "/admin/engines/")
    mock = card(engines, "mock")
    expect(mock).to_contain_text("0/1")
    expect(mock).to_contain_text("Nobody waits.")
    assert serious(engines) == []
    stack.create_user("bob")
    bob = Chat.of(DESK.context(browser), stack, "bob")
    alice.send(LONG)
    alice.wait_writing()
    bob.send("and I")
    expect(mock).to_contain_text("1/1")
    expect(mock.locator("[data-f=running]")).to_have_text("1")
    expect(mock.locator("[data-f=waiting]")).to_have_text("1")
    expect(mock.locator("[data-f=owners]")).to_have_text("bob (1)")
    alice.press("Stop")
    bob.wait_done()
    expect(mock).to_contain_text("Nobody waits.")
    expect(mock).to_contain_text("0/1")
    bob.page.context.close()


def test_one_model_in_detail(alice: Chat, browser: Browser, stack: Stack) -> None:
    engines = admin_page(alice, "/admin/engines/")
    card(engines, "mock").get_by_role("link", name="mock").click()
    expect(engines).to_have_url(re.compile(r"/admin/engines/1/$"))
    slots = engines.locator("[data-f=slots] tr")
    expect(slots).to_have_text([re.compile("^free")])
    expect(engines.locator("[data-f=log-lines]")).to_contain_text("loaded in")
    assert serious(engines) == []
    alice.send(LONG)
    alice.wait_writing()
    expect(slots.first).to_contain_text(re.compile("answer *alice"))
    expect(slots.first.locator("td").nth(4)).to_have_text(re.compile(r"^[1-9]"))
    expect(engines.locator("[data-f=decode]")).to_have_text(re.compile(r"^[1-9]"))
    expect(engines.locator("[data-f=cache] tr")).to_have_count(3)
    first = engines.locator("[data-f=id]").text_content()
    engines.get_by_role("button", name="Restart").click()
    expect(engines.locator("#engine-notice")).to_contain_text("a minute to end")
    expect(engines.locator("[data-f=state]")).to_have_text("draining", timeout=RECONNECT_MS)
    alice.press("Stop")
    expect(engines.locator("[data-f=state]")).to_have_text("ready", timeout=RECONNECT_MS)
    expect(engines.locator("[data-f=id]")).not_to_have_text(str(first), timeout=RECONNECT_MS)
    engines.get_by_role("button", name="Pin", exact=True).click()
    expect(engines.locator("[data-f=pinned]")).to_be_visible()
    engines.get_by_role("button", name="Unpin").click()
    expect(engines.locator("[data-f=pinned]")).to_be_hidden()


def test_a_model_of_the_hub_is_found_chosen_paused_and_fetched(alice: Chat, hub: Hub) -> None:
    body = gguf_files.model(num_values=1_500_000)
    hub.add(**{"t-Q4_K_M.gguf": body, "t-Q8_0-00001-of-00002.gguf": b"x"})
    hub.finds(found(hub.repo))
    page = admin_page(alice, ADD)
    page.get_by_role("link", name="Search the hub").click()
    page.get_by_label(re.compile("^Search")).fill("tiny")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator(".lw-found")).to_contain_text("268M parameters")
    assert serious(page) == []
    page.get_by_role("link", name=hub.repo).click()
    choices = page.get_by_role("radio")
    expect(choices.first).to_be_checked()
    expect(page.locator(".lw-choice").first).to_contain_text("fits")
    expect(choices.last).to_be_disabled()
    assert serious(page) == []
    page.get_by_label("Name of the model").fill("mock")
    page.get_by_role("button", name="Download").click()
    expect(page.get_by_role("alert")).to_contain_text("there is a model of this name already")
    page.get_by_label("Name of the model").fill("fetched")
    page.get_by_label("Load it as soon as it is there").uncheck()
    hub.source.hold_at = 3_000_000
    page.get_by_role("button", name="Download").click()
    expect(page.get_by_text("The download has started.")).to_be_visible()
    expect(page.locator(".lw-progress")).to_contain_text("2.9 MB / 5.7 MB", timeout=RECONNECT_MS)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("The download is paused.")).to_be_visible()
    hub.source.go_on.set()
    page.get_by_role("button", name="Resume").click()
    models = admin_page(alice, "/admin/inference/modelfile/")
    row = models.locator("#result_list tr", has_text="fetched")
    expect(row).to_contain_text("ready", timeout=RECONNECT_MS)


def test_an_unloaded_model_says_so_and_retry_works_once_it_is_back(alice: Chat) -> None:
    models = admin_page(alice, "/admin/inference/modelconfig/")
    row = models.locator("#result_list tr", has_text="mock")
    expect(row.locator("[data-live=state]")).to_have_text("ready", timeout=RECONNECT_MS)
    expect(row.locator("[data-live=memory]")).to_have_text(re.compile("MB in use"))
    expect(row).to_contain_text("answers")
    assert serious(models) == []
    engines = admin_page(alice, "/admin/engines/")
    mock = card(engines, "mock")
    mock.get_by_role("button", name="Unload").click()
    expect(engines.locator("#engines-notice")).to_have_text("mock is being unloaded.")
    expect(mock.locator("[data-f=state]")).to_have_text("not loaded", timeout=RECONNECT_MS)
    expect(row.locator("[data-live=state]")).to_have_text("not loaded", timeout=RECONNECT_MS)
    alice.send("hello")
    expect(alice.answers.last).to_contain_text("The answer failed.", timeout=RECONNECT_MS)
    expect(alice.answers.last).to_contain_text("model mock is not loaded")
    mock.get_by_role("button", name="Load", exact=True).click()
    expect(mock.locator("[data-f=state]")).to_have_text("ready", timeout=RECONNECT_MS)
    alice.press("Retry")
    expect(alice.answer).to_have_text("hello", timeout=ANSWER_MS)
    alice.wait_done()
    assert alice.stored_answer()["state"] == "done"


def test_names_tags_and_people_are_chosen(alice: Chat) -> None:
    page = admin_page(alice, MODEL)
    page.locator("#id_aliases").fill("gpt-small, team/chat")
    page.locator("#id_tags").fill("fast")
    page.locator("#id_sampling").fill('{"temperature": 0.5}')
    page.locator("#id_is_restricted").check(force=True)
    page.locator("#id_users_from").select_option(label="alice")
    page.locator("#id_users_add, #id_users_add_link").first.click()
    assert serious(page) == []
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page).to_have_url(re.compile(r"/modelconfig/$"))
    page.goto(alice.stack.base_url + MODEL)
    expect(page.locator("#id_aliases")).to_have_value("gpt-small, team/chat")
    expect(page.locator("#id_is_restricted")).to_be_checked()
    expect(page.locator("#id_users_to")).to_contain_text("alice")
    page.locator("#id_is_restricted").uncheck(force=True)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page).to_have_url(re.compile(r"/modelconfig/$"))
