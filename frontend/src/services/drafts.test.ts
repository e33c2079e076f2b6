// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { Drafts, MAX_DRAFT_CHARS, MAX_DRAFTS } from "./drafts";

const drafts = new Drafts("alice");
const sending = { clientKey: "k", text: "on its way", after: 3 };

beforeEach(() => {
  localStorage.clear();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

it("keeps a draft by user and conversation", () => {
  drafts.write("c1", { text: "one", sending: null });
  drafts.write(null, { text: "new", sending });
  expect(drafts.read("c1")).toEqual({ text: "one", sending: null });
  expect(drafts.read(null)).toEqual({ text: "new", sending });
  expect(drafts.read("c2").text).toBe("");
  expect(new Drafts("bob").read("c1").text).toBe("");
  expect(new Drafts("alice:draft").read("c1").text).toBe("");
});

it("forgets what is empty or too long", () => {
  drafts.write("c1", { text: "one", sending: null });
  drafts.write("c1", { text: "", sending: null });
  expect(localStorage.length).toBe(0);
  drafts.write("c1", { text: "one", sending: null });
  drafts.write("c1", { text: "x".repeat(MAX_DRAFT_CHARS + 1), sending: null });
  expect(localStorage.length).toBe(0);
});

it("keeps only so many, the oldest go", () => {
  vi.useFakeTimers();
  localStorage.setItem("other", "stays");
  for (let index = 0; index < MAX_DRAFTS + 5; index += 1) {
    vi.setSystemTime(1_000_000 + index);
    drafts.write(`c${String(index)}`, { text: "x", sending: null });
  }
  expect(localStorage.length).toBe(MAX_DRAFTS + 1);
  expect(drafts.read("c4").text).toBe("");
  expect(drafts.read("c5").text).toBe("x");
});

it("doesn't mind storage that is full or forbidden, or full of something else", () => {
  const refuse = () => {
    throw new DOMException("no", "QuotaExceededError");
  };
  vi.spyOn(Storage.prototype, "setItem").mockImplementation(refuse);
  expect(() => drafts.write("c1", { text: "x", sending: null })).not.toThrow();
  vi.spyOn(Storage.prototype, "getItem").mockImplementation(refuse);
  expect(drafts.read("c1")).toEqual({ text: "", sending: null });
  vi.restoreAllMocks();
  const values = [
    "{",
    "3",
    '{"text":1,"sending":null}',
    '{"text":"a","sending":{"text":"b"}}',
    "[]",
  ];
  for (const value of values) {
    localStorage.setItem("llamaweb:draft:alice:c1", value);
    expect(drafts.read("c1")).toEqual({ text: "", sending: null });
  }
});
