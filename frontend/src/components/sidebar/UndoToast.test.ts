// @vitest-environment jsdom
import { fireEvent, render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { expect, test } from "vitest";

import { FakeApp } from "../../dev/fake.svelte";
import { conversations } from "../../dev/fixtures";
import Stage from "../../dev/Stage.svelte";
import UndoToast from "./UndoToast.svelte";

async function setUp() {
  const app = new FakeApp();
  app.conversations.rows = conversations(2);
  render(Stage, { app, of: UndoToast, given: {} });
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
