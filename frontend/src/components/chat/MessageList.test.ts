// @vitest-environment jsdom
import { fireEvent, render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { beforeEach, expect, test } from "vitest";

import { FakeApp } from "../../dev/fake.svelte";
import { shown } from "../../dev/fixtures";
import Stage from "../../dev/Stage.svelte";
import MessageList from "./MessageList.svelte";

const SIBLINGS = ["a1", "a2", "a3"];

beforeEach(() => {
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
});

async function setUp() {
  const app = new FakeApp();
  const show = (id: string) => {
    const place = { siblings: SIBLINGS, index: SIBLINGS.indexOf(id) };
    app.chat.path = [shown("u1", "user", "Why?"), shown(id, "assistant", `Text ${id}`, place)];
    return Promise.resolve();
  };
  app.chat.select = show;
  await show("a1");
  const { container } = render(Stage, { app, of: MessageList, given: { chat: app.chat } });
  await tick();
  return { app, container };
}

const press = async (button: HTMLElement) => {
  button.focus();
  await fireEvent.click(button);
  await tick();
};

test("walking through versions the focus stays on the switch", async () => {
  await setUp();
  await press(screen.getByLabelText("Next version"));
  expect(screen.getByText("Text a2")).toBeTruthy();
  expect(document.activeElement).toBe(screen.getByLabelText("Next version"));
  await press(screen.getByLabelText("Next version"));
  expect(screen.getByText("Text a3")).toBeTruthy();
  expect(document.activeElement).toBe(screen.getByLabelText("Previous version"));
});

test("after a message is deleted the one before has the focus", async () => {
  const { app, container } = await setUp();
  await press(screen.getByLabelText("Delete"));
  const dialog = screen.getByRole<HTMLDialogElement>("dialog");
  dialog.returnValue = "yes";
  await fireEvent(dialog, new Event("close"));
  app.chat.path = app.chat.path.slice(0, 1);
  await tick();
  expect(app.chat.calls).toEqual([["remove", "a1"]]);
  expect(document.activeElement).toBe(container.querySelector('article[data-id="u1"]'));
});

test("what people write runs in its own direction", async () => {
  await setUp();
  expect(screen.getByText("Why?").getAttribute("dir")).toBe("auto");
});
