// @vitest-environment jsdom
import { fireEvent, render, screen } from "@testing-library/svelte";
import { expect, test, vi } from "vitest";

import { FakeApp } from "../../dev/fake.svelte";
import { live, me, part, shown, turn } from "../../dev/fixtures";
import Stage from "../../dev/Stage.svelte";
import type { ShownMessage } from "../../types/stores";
import Message from "./Message.svelte";

function setUp(message: ShownMessage, changes: Record<string, unknown> = {}) {
  const app = new FakeApp();
  const acts = { onedit: vi.fn(), onremove: vi.fn() };
  const given = { message, isActive: true, isEditing: false, ...acts, ...changes };
  const { container } = render(Stage, { app, of: Message, given });
  return { app, container, ...acts };
}

test("the switch goes to the sibling beside, and no further than the last", async () => {
  const message = shown("m2", "assistant", "b", { siblings: ["m1", "m2", "m3"], index: 1 });
  const { app } = setUp(message, { isActive: false });
  expect(screen.getByRole("group", { name: "Version 2 of 3" })).toBeTruthy();
  await fireEvent.click(screen.getByLabelText("Next version"));
  await fireEvent.click(screen.getByLabelText("Previous version"));
  expect(app.chat.calls).toEqual([
    ["select", "m3"],
    ["select", "m1"],
  ]);
});

test("at the end of the siblings there is no next one", () => {
  setUp(shown("m3", "assistant", "c", { siblings: ["m1", "m3"], index: 1 }));
  expect(screen.getByLabelText<HTMLButtonElement>("Next version").disabled).toBe(true);
  expect(screen.getByLabelText<HTMLButtonElement>("Previous version").disabled).toBe(false);
});

test("a failed answer keeps its text, says why and can be tried again", async () => {
  const message = shown(
    "m2",
    "assistant",
    "Half a",
    { state: "failed", turn: turn() },
    { error_message: "The engine ended." },
  );
  const { app } = setUp(message);
  expect(screen.getByText("Half a")).toBeTruthy();
  expect(screen.getByText("The engine ended.", { exact: false })).toBeTruthy();
  await fireEvent.click(screen.getByRole("button", { name: "Retry" }));
  expect(app.chat.calls).toEqual([["retry", "t1"]]);
});

test("thoughts can be ended while they go on, once", async () => {
  const thinks = { state: "streaming", turn: turn({ state: "running" }) } as const;
  const parts = [part("Let me see…", "reasoning")];
  const message = shown("m2", "assistant", "", {
    ...thinks,
    parts,
    live: live({ phase: "generating" }),
  });
  const { app } = setUp(message);
  const button = screen.getByRole<HTMLButtonElement>("button", { name: "Answer now" });
  await fireEvent.click(button);
  expect(app.chat.calls).toEqual([["answerNow", "t1"]]);
  expect(button.disabled).toBe(true);
});

test.each([
  ["an answer that has begun", [part("Hm.", "reasoning"), part("So")], "qwen3-8b-instruct"],
  ["a model that doesn't reason", [part("Hm.", "reasoning")], "gemma-3-12b"],
])("%s has no thoughts to end", (_, parts, name) => {
  const message = shown(
    "m2",
    "assistant",
    "",
    {
      state: "streaming",
      turn: turn({ state: "running" }),
      parts,
      live: live({ phase: "generating" }),
    },
    { model_name: name },
  );
  setUp(message);
  expect(screen.queryByRole("button", { name: "Answer now" })).toBeNull();
});

test("the place in the queue is said in words", () => {
  const place = { ahead: 2, waiting: 5, reason: "the disk is slow" };
  const message = shown("m2", "assistant", "", {
    state: "streaming",
    live: live({ phase: "queued", place }),
  });
  setUp(message);
  expect(screen.getByText("3rd of 5 in the queue — the disk is slow")).toBeTruthy();
});

test("text of people is shown as it is", () => {
  const { container } = setUp(shown("m1", "user", "<img src=x onerror=alert(1)>"));
  expect(container.querySelector("img")).toBeNull();
  expect(container.querySelector(".bubble")?.textContent).toBe("<img src=x onerror=alert(1)>");
});

test("editing: Escape leaves it, Enter sends the changed text", async () => {
  const { app, onedit } = setUp(shown("m1", "user", "old"), { isEditing: true });
  const field = screen.getByLabelText("Edit the message");
  await fireEvent.keyDown(field, { key: "Escape" });
  expect(onedit).toHaveBeenLastCalledWith(false);
  expect(app.chat.calls).toEqual([]);
  await fireEvent.input(field, { target: { value: "new" } });
  await fireEvent.keyDown(field, { key: "Enter" });
  expect(app.chat.calls).toEqual([["edit", "m1", "new"]]);
});

test("each answer says which model wrote it, and can be had from another one", async () => {
  HTMLElement.prototype.showPopover = function (this: HTMLElement) {
    this.removeAttribute("popover"); // by which jsdom hides it
  };
  HTMLElement.prototype.hidePopover = vi.fn();
  Element.prototype.scrollIntoView = vi.fn();
  const { app } = setUp(shown("m2", "assistant", "b"));
  expect(screen.getByText(/qwen3-8b-instruct/)).toBeTruthy();
  await fireEvent.click(screen.getByRole("button", { name: "Answer anew with another model" }));
  await fireEvent.click(await screen.findByRole("option", { name: /gemma-3-12b/ }));
  expect(app.chat.calls).toEqual([["regenerate", "m2", "gemma-3-12b"]]);
});

test("the model is there without a pointer over the answer, and while it is written", () => {
  setUp(shown("m2", "assistant", "b"), { isActive: false });
  expect(screen.getByText("qwen3-8b-instruct")).toBeTruthy();
  setUp(shown("m3", "assistant", "c", { state: "streaming", live: live({}) }, { model_name: "x" }));
  expect(screen.getByText("x")).toBeTruthy();
});

test("while the model is being loaded its progress is shown", () => {
  const place = { ahead: 0, waiting: 1, reason: "model gemma-3-12b is loading" };
  const message = shown(
    "m2",
    "assistant",
    "",
    { state: "streaming", live: live({ phase: "queued", place }) },
    { model_name: "gemma-3-12b" },
  );
  const app = new FakeApp();
  app.account.me = me({
    models: me().models.map((model) => ({
      ...model,
      state: model.name === "gemma-3-12b" ? ("loading" as const) : model.state,
      load_progress: model.name === "gemma-3-12b" ? 0.5 : null,
    })),
  });
  render(Stage, {
    app,
    of: Message,
    given: { message, isActive: true, isEditing: false, onedit: vi.fn(), onremove: vi.fn() },
  });
  expect(screen.getByRole<HTMLProgressElement>("progressbar", { name: "loading" }).value).toBe(0.5);
  expect(screen.getByText(/50%/)).toBeTruthy();
});
