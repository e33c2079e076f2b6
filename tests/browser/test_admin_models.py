"""Who may use a model, under which names, set in the browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.axe import serious
from tests.browser.journey import Chat
from tests.browser.test_admin import ENV as ENV
from tests.browser.test_admin import admin_page

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(300)]
MODEL = "/admin/inference/modelconfig/1/change/"


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
