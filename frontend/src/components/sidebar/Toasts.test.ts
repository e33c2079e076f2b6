// @vitest-environment jsdom
import { fireEvent, render, screen, within } from "@testing-library/svelte";
import { tick } from "svelte";
import { expect, test } from "vitest";

import { FakeApp } from "../../dev/fake.svelte";
import { conversations } from "../../dev/fixtures";
import Stage from "../../dev/Stage.svelte";
import Drawer from "./Drawer.svelte";
import Toasts from "./Toasts.svelte";

async function setUp() {
  const app = new FakeApp();
  app.conversations.rows = conversations(2);
  render(Stage, { app, of: Toasts, given: {} });
  expect(screen.queryByRole("button")).toBeNull();
  await app.conversations.remove("c0");
  await tick();
  return app;
}

test("what was deleted is said and can be taken back", async () => {
  const app = await setUp();
  expect(screen.getByRole("status").textContent).toContain("“Moving a bread recipe to metric”");
  await fireEvent.click(screen.getByText("Undo"));
  expect(app.conversations.rows.map((row) => row.id)).toEqual(["c0", "c1"]);
  expect(screen.queryByRole("button")).toBeNull();
});

test("dismissed, it stays deleted", async () => {
  const app = await setUp();
  await fireEvent.click(screen.getByLabelText("Dismiss"));
  expect(app.conversations.rows.map((row) => row.id)).toEqual(["c1"]);
  expect(screen.queryByRole("button")).toBeNull();
});

test("it stays while somebody is at it", async () => {
  const app = await setUp();
  const button = screen.getByText("Undo");
  button.focus();
  expect(app.conversations.isUndoHeld).toBe(true);
  button.blur();
  expect(app.conversations.isUndoHeld).toBe(false);
});

test("what failed is said until it is dismissed", async () => {
  const app = new FakeApp();
  render(Stage, { app, of: Toasts, given: {} });
  const error = { code: "offline", message: "", param: null, retryable: true, retry_after_s: null };
  app.conversations.error = error;
  await tick();
  expect(screen.getByRole("status").textContent).toContain("The server can't be reached.");
  await fireEvent.click(screen.getByLabelText("Dismiss"));
  expect(app.conversations.error).toBeNull();
  expect(screen.queryByRole("button")).toBeNull();
});

test("it can be reached while the drawer is open, which lets nothing else be", async () => {
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
  const app = new FakeApp();
  render(Stage, { app, of: Drawer, given: { current: null, onclose: () => undefined } });
  app.conversations.rows = conversations(2);
  await app.conversations.remove("c0");
  await tick();
  expect(within(screen.getByRole("dialog")).getByText("Undo")).toBeTruthy();
});
