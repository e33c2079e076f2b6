// @vitest-environment jsdom
import { fireEvent, render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { expect, test, vi } from "vitest";

import { FakeApp } from "../../dev/fake.svelte";
import { me } from "../../dev/fixtures";
import Stage from "../../dev/Stage.svelte";
import Composer from "./Composer.svelte";

async function setUp(draft: string) {
  const app = new FakeApp();
  app.account.me = me({ limits: { ...me().limits, text_chars: 10 } });
  app.chat.draft = draft;
  const onsent = vi.fn();
  render(Stage, { app, of: Composer, given: { chat: app.chat, onsent } });
  await tick();
  return { app, onsent, field: screen.getByLabelText<HTMLTextAreaElement>("Message") };
}

test("Enter sends once, and the field is empty then", async () => {
  const { app, field, onsent } = await setUp(" hi ");
  await fireEvent.keyDown(field, { key: "Enter" });
  expect(app.chat.calls).toEqual([["send", "hi"]]);
  expect(app.chat.draft).toBe("");
  expect(onsent).toHaveBeenCalledOnce();
  await fireEvent.keyDown(field, { key: "Enter" });
  expect(app.chat.calls).toHaveLength(1);
});

test("Enter of an input method, or with Shift, doesn't", async () => {
  const { app, field } = await setUp("ni");
  await fireEvent.keyDown(field, { key: "Enter", isComposing: true });
  await fireEvent.keyDown(field, { key: "Enter", shiftKey: true });
  expect(app.chat.calls).toEqual([]);
  expect(app.chat.draft).toBe("ni");
});

test("what is typed is the chat's draft", async () => {
  const { app, field } = await setUp("");
  await fireEvent.input(field, { target: { value: "abc" } });
  expect(app.chat.draft).toBe("abc");
});

test("too much text says by how much and isn't sent", async () => {
  const { app, field } = await setUp("0123456789ab");
  expect(screen.getByText("2 characters too many; 10 are possible.")).toBeTruthy();
  await fireEvent.keyDown(field, { key: "Enter" });
  expect(app.chat.calls).toEqual([]);
});

test("while an answer is written there is Stop, and Enter keeps the text", async () => {
  const { app, field } = await setUp("more");
  app.chat.isRunning = true;
  await tick();
  expect(screen.queryByLabelText("Send")).toBeNull();
  await fireEvent.keyDown(field, { key: "Enter" });
  await fireEvent.click(screen.getByLabelText("Stop"));
  expect(app.chat.calls).toEqual([["stop"]]);
  expect(app.chat.draft).toBe("more");
});

test("a chat to read only says so", async () => {
  const { app } = await setUp("");
  app.chat.canWrite = false;
  await tick();
  expect(screen.queryByLabelText("Message")).toBeNull();
  expect(screen.getByText(/read this chat, but not write/)).toBeTruthy();
});
