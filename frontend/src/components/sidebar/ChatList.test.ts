// @vitest-environment jsdom
import { fireEvent, render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { beforeEach, expect, test, vi } from "vitest";

import { FakeApp } from "../../dev/fake.svelte";
import { conversations } from "../../dev/fixtures";
import Stage from "../../dev/Stage.svelte";
import ChatList from "./ChatList.svelte";

let before: HTMLElement | null = null;

// As browsers have it: what had the focus before gets it back.
beforeEach(() => {
  HTMLElement.prototype.showPopover = function () {
    this.removeAttribute("popover"); // else it counts as hidden
    before = document.activeElement as HTMLElement | null;
  };
  HTMLElement.prototype.hidePopover = function () {
    before?.focus();
    this.dispatchEvent(Object.assign(new Event("toggle"), { newState: "closed" }));
  };
});

async function openMenu(app = new FakeApp()) {
  app.conversations.rows = conversations(2);
  render(Stage, { app, of: ChatList, given: { current: null } });
  await tick();
  screen.getAllByRole("link")[0]?.focus();
  await tick();
  const button = screen.getByLabelText(/^More for/);
  button.focus();
  await fireEvent.click(button);
  const item = await screen.findByText("Delete");
  await vi.waitFor(() => expect(document.activeElement?.textContent).toBe("Rename"));
  return { app, button, item };
}

test("the button of a menu stays while it is open, and has the focus after it", async () => {
  const { button, item } = await openMenu();
  expect(button.isConnected).toBe(true);
  item.closest<HTMLElement>("[role=menu]")?.hidePopover();
  await tick();
  expect(document.activeElement).toBe(button);
  button.blur();
  await tick();
  expect(button.isConnected).toBe(false);
});

test("after a chat is deleted the next one has the focus, before the server says so", async () => {
  const app = new FakeApp();
  app.conversations.remove = (id) => {
    app.conversations.rows = app.conversations.rows.filter((row) => row.id !== id);
    return new Promise<never>(() => undefined);
  };
  const { item } = await openMenu(app);
  await fireEvent.click(item);
  await tick();
  const links = screen.getAllByRole("link");
  expect(links).toHaveLength(1);
  expect(document.activeElement).toBe(links[0]);
});
