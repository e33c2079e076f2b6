// @vitest-environment jsdom
import { fireEvent, render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { expect, test, vi } from "vitest";

import { FakeApp } from "../../dev/fake.svelte";
import { shown } from "../../dev/fixtures";
import Stage from "../../dev/Stage.svelte";
import EditForm from "./EditForm.svelte";
import Message from "./Message.svelte";

function setUp() {
  const acts = { onsave: vi.fn(() => Promise.resolve()), oncancel: vi.fn() };
  render(Stage, { app: new FakeApp(), of: EditForm, given: { text: "old", ...acts } });
  return { ...acts, field: screen.getByLabelText<HTMLTextAreaElement>("Edit the message") };
}

test("Escape and Enter of an input method are its own", async () => {
  const { field, onsave, oncancel } = setUp();
  for (const key of ["Escape", "Enter"]) {
    await fireEvent.keyDown(field, { key, isComposing: true });
    await fireEvent.keyDown(field, { key, keyCode: 229 });
  }
  expect(oncancel).not.toHaveBeenCalled();
  expect(onsave).not.toHaveBeenCalled();
});

test("on a touch keyboard Enter begins a line", async () => {
  const matchMedia = vi
    .spyOn(window, "matchMedia")
    .mockImplementation(
      (media) =>
        Object.assign(new EventTarget(), { media, matches: true }) as unknown as MediaQueryList,
    );
  const { field, onsave } = setUp();
  await fireEvent.keyDown(field, { key: "Enter" });
  expect(onsave).not.toHaveBeenCalled();
  matchMedia.mockRestore();
});

test("it is sent once, however often it is asked for", async () => {
  const { field, onsave } = setUp();
  let done: () => void = () => undefined;
  onsave.mockImplementation(() => new Promise<void>((resolve) => (done = resolve)));
  await fireEvent.keyDown(field, { key: "Enter" });
  await fireEvent.keyDown(field, { key: "Enter" });
  expect(onsave).toHaveBeenCalledExactlyOnceWith("old");
  done();
  await tick();
});

test("what was refused stays, to be sent again", async () => {
  const app = new FakeApp();
  const onedit = vi.fn();
  app.chat.error = { code: "offline", message: "", param: null, retryable: true, retry_after_s: 1 };
  const given = { isActive: true, isEditing: true, onedit, onremove: vi.fn() };
  const message = shown("m1", "user", "old");
  render(Stage, { app, of: Message, given: { message, ...given } });
  const field = screen.getByLabelText<HTMLTextAreaElement>("Edit the message");
  await fireEvent.input(field, { target: { value: "new" } });
  await fireEvent.keyDown(field, { key: "Enter" });
  await tick();
  expect(onedit).not.toHaveBeenCalled();
  app.chat.error = null;
  await fireEvent.keyDown(field, { key: "Enter" });
  await vi.waitFor(() => expect(onedit).toHaveBeenCalledExactlyOnceWith(false));
  expect(app.chat.calls).toEqual([
    ["edit", "m1", "new"],
    ["edit", "m1", "new"],
  ]);
});
