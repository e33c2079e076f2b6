import { expect, test } from "vitest";

import { de } from "./de";
import { en } from "./en";
import { agoText, dateText } from "./format";
import { fill, I18n, languageOf } from "./index.svelte";

const NOW = new Date("2026-11-30T12:00:00Z");

/** Each text with its path and the names that are filled in. */
function placesOf(texts: object, path = ""): [string, string[]][] {
  return Object.entries(texts).flatMap(([key, value]: [string, unknown]) => {
    const own = `${path}.${key}`;
    if (typeof value === "string") {
      return [[own, [...value.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "").sort()]];
    }
    return placesOf(value as object, own);
  });
}

test("a translation fills in what the original does", () => {
  const german = new Map(placesOf(de));
  for (const [path, names] of placesOf(en)) {
    if (german.has(path)) {
      expect([path, german.get(path)]).toEqual([path, names]);
    }
  }
});

test("the reader's first language that is there is taken", () => {
  expect(languageOf(["fr", "de-AT", "en"])).toBe("de");
  expect(languageOf(["fr"])).toBe("en");
});

test("values are filled in once, as text", () => {
  expect(fill("{a} and {b}", { a: "{b}", b: 2 })).toBe("{b} and 2");
  expect(fill("{unknown}", {})).toBe("{unknown}");
});

test("numbers choose their form", () => {
  const [english, german] = [new I18n("en"), new I18n("de")];
  expect([1, 2, 3, 4, 11, 22].map((n) => english.ordinal(n))).toEqual([
    "1st",
    "2nd",
    "3rd",
    "4th",
    "11th",
    "22nd",
  ]);
  expect(german.ordinal(3)).toBe("3.");
  expect(english.count(en.chat.tokens, 1)).toBe("1 token");
  expect(german.count(de.chat.tokens, 1234)).toBe("1.234 Token");
});

test("near instants are told from now, far ones by date", () => {
  expect(agoText("en", "2026-11-30T11:55:00Z", NOW)).toBe("5 minutes ago");
  expect(agoText("de", "2026-11-29T12:00:00Z", NOW)).toBe("gestern");
  expect(agoText("en", "2026-11-01T12:00:00Z", NOW)).toBe("November 1");
  expect(dateText("en", "2025-11-01T12:00:00Z", NOW)).toBe("November 1, 2025");
});
