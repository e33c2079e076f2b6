// @vitest-environment jsdom
import { expect, test } from "vitest";

import { keyActOf } from "./keys";

function pressed(key: string, more: KeyboardEventInit = {}, on = "p"): string | null {
  const event = new KeyboardEvent("keydown", { key, ...more });
  document.createElement(on).dispatchEvent(event);
  return keyActOf(event);
}

test("keys act anywhere on the page", () => {
  expect(["/", "?", "Escape", "x"].map((key) => pressed(key))).toEqual([
    "focus",
    "help",
    "stop",
    null,
  ]);
  expect(pressed("O", { ctrlKey: true, shiftKey: true })).toBe("new");
  expect(pressed("o", { metaKey: true, shiftKey: true })).toBe("new");
  expect(pressed("o", { ctrlKey: true })).toBeNull();
});

test("in a field they are what is written, but for those that can't be", () => {
  expect(["/", "?"].map((key) => pressed(key, {}, "textarea"))).toEqual([null, null]);
  expect(pressed("Escape", {}, "textarea")).toBe("stop");
  expect(pressed("O", { ctrlKey: true, shiftKey: true }, "input")).toBe("new");
});

test("Escape of an input method stops nothing", () => {
  expect(pressed("Escape", { isComposing: true }, "textarea")).toBeNull();
});
