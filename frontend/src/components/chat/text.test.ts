import { expect, test } from "vitest";

import type { PartOut } from "../../types/api";
import { excessOf, isSendKey, textOf } from "./text";

const key = (changes: Partial<KeyboardEvent>) =>
  ({ key: "Enter", isComposing: false, keyCode: 13, ...changes }) as KeyboardEvent;

test.each([
  [{}, false, true],
  [{ shiftKey: true }, false, false],
  [{ altKey: true }, false, false],
  [{ isComposing: true }, false, false],
  [{ keyCode: 229 }, false, false],
  [{ key: "a" }, false, false],
  [{}, true, false],
  [{ ctrlKey: true }, true, true],
  [{ metaKey: true }, false, true],
])("%j (touch: %s) sends: %s", (changes, isTouch, expected) =>
  expect(isSendKey(key(changes), isTouch)).toBe(expected),
);

test("a character is a code point", () => {
  expect(excessOf("😀😀", 2)).toBe(0);
  expect(excessOf("😀😀a", 2)).toBe(1);
});

test("reasoning isn't text", () => {
  const parts = [
    { type: "reasoning", text: "hm" },
    { type: "text", text: "a" },
    { type: "text", text: "b" },
  ] as PartOut[];
  expect(textOf(parts)).toBe("a\n\nb");
  expect(textOf(parts, "reasoning")).toBe("hm");
});
