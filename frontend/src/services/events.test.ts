// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { feed } from "../domain/samples";
import { Events } from "./events";
import { FakeEvents, stubBrowser } from "./fakes";
import type { LinkOwner } from "./link";
import { READY_MS } from "./socket";

const owner = {
  hello: vi.fn<LinkOwner["hello"]>(() => ({ type: "hello", feed: 7 })),
  opens: vi.fn<LinkOwner["opens"]>(() => [
    { type: "open", conversation_id: "c1", revision: null, cursors: {} },
    { type: "open", conversation_id: "c2", revision: 4, cursors: { g1: "1:2" } },
  ]),
  opened: vi.fn<LinkOwner["opened"]>(),
  ready: vi.fn<LinkOwner["ready"]>(),
  take: vi.fn<LinkOwner["take"]>(),
  closed: vi.fn<LinkOwner["closed"]>(),
};

beforeEach(() => {
  vi.useFakeTimers();
  stubBrowser();
  vi.clearAllMocks();
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it("says in its address what it follows", () => {
  new Events(owner);
  const { query } = FakeEvents.last;
  expect(FakeEvents.last.url).toMatch(/^\/api\/app\/live\?/);
  expect(query.get("feed")).toBe("7");
  expect(query.getAll("open")).toEqual(["c1@-", "c2@4"]);
  expect(query.getAll("cursor")).toEqual(["g1@1:2"]);
});

it("leaves out what it doesn't know", () => {
  owner.hello.mockReturnValueOnce({ type: "hello", feed: null });
  new Events(owner);
  expect(FakeEvents.last.query.has("feed")).toBe(false);
});

it("is ready with the list, and ends at the first error: its address is out of date by then", () => {
  const events = new Events(owner);
  FakeEvents.last.say(feed(8));
  expect(events.isReady).toBe(true);
  expect(owner.take).toHaveBeenCalledOnce();
  FakeEvents.last.onerror?.();
  expect(FakeEvents.last.isClosed).toBe(true);
  expect(owner.closed).toHaveBeenCalledOnce();
});

it("gives up when nothing comes", () => {
  new Events(owner);
  vi.advanceTimersByTime(READY_MS);
  expect(owner.closed).toHaveBeenCalledOnce();
});
