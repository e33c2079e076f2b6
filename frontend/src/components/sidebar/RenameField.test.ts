// @vitest-environment jsdom
import { fireEvent, render, screen } from "@testing-library/svelte";
import { expect, test, vi } from "vitest";

import { FakeApp } from "../../dev/fake.svelte";
import Stage from "../../dev/Stage.svelte";
import RenameField from "./RenameField.svelte";

test("keys of an input method end nothing; its own do", async () => {
  const onend = vi.fn();
  render(Stage, { app: new FakeApp(), of: RenameField, given: { title: "old", onend } });
  const field = screen.getByLabelText("Title");
  await fireEvent.input(field, { target: { value: "new" } });
  for (const key of ["Escape", "Enter"]) {
    await fireEvent.keyDown(field, { key, isComposing: true });
    await fireEvent.keyDown(field, { key, keyCode: 229 });
  }
  expect(onend).not.toHaveBeenCalled();
  await fireEvent.keyDown(field, { key: "Enter" });
  expect(onend).toHaveBeenLastCalledWith("new", true);
  await fireEvent.keyDown(field, { key: "Escape" });
  expect(onend).toHaveBeenLastCalledWith("old", true);
});
