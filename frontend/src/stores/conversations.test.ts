// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { unanswered } from "../domain/errors";
import { conversation, feed } from "../domain/samples";
import type { Acts } from "../services/acts";
import type { Rest } from "../services/rest";
import type { ActResult, ConversationPage } from "../types/api";
import { ConversationListStore, UNDO_MS } from "./conversations.svelte";

const run = vi.fn<(name: string, args: unknown) => Promise<Partial<ActResult>>>();
const get = vi.fn<(path: string) => Promise<ConversationPage>>();
const owner = { removed: vi.fn(), restored: vi.fn() };
let list: ConversationListStore;

const row = (id: string, minute: number, revision = 1) =>
  conversation(id, { updated_at: `2026-01-01T00:0${String(minute)}:00Z`, revision });
const shown = () => list.rows.map(({ id, title }) => [id, title]);

beforeEach(() => {
  vi.useFakeTimers();
  vi.clearAllMocks();
  run.mockReset().mockResolvedValue({ revision: 2 });
  list = new ConversationListStore({ run } as unknown as Acts, { get } as unknown as Rest, owner);
  list.take(feed(1, { reset: true, conversations: [row("b", 2), row("a", 1)], next: "x y" }));
});
afterEach(() => {
  vi.useRealTimers();
});

describe("pages", () => {
  it("are loaded one at a time", async () => {
    get.mockResolvedValue({ conversations: [row("z", 0)], next: null });
    expect(list.hasMore).toBe(true);
    await Promise.all([list.loadMore(), list.loadMore()]);
    expect(get.mock.calls).toEqual([["conversations?before=x+y"]]);
    expect(shown().map(([id]) => id)).toEqual(["b", "a", "z"]);
    expect(list.hasMore).toBe(false);
    await list.loadMore();
    expect(get).toHaveBeenCalledOnce();
  });

  it("of a list that began anew meanwhile are dropped", async () => {
    let answer: (page: ConversationPage) => void = () => undefined;
    get.mockReturnValue(new Promise((resolve) => (answer = resolve)));
    const loaded = list.loadMore();
    list.take(feed(9, { reset: true, conversations: [row("n", 5)], next: "other" }));
    answer({ conversations: [row("z", 0)], next: null });
    await loaded;
    expect(shown().map(([id]) => id)).toEqual(["n"]);
    expect(list.hasMore).toBe(true);
  });

  it("can be asked for again after a failure", async () => {
    get.mockRejectedValueOnce(unanswered());
    await list.loadMore();
    expect(list.hasMore).toBe(true);
    get.mockResolvedValue({ conversations: [], next: null });
    await list.loadMore();
    expect(list.hasMore).toBe(false);
  });
});

describe("a title", () => {
  it("shows at once and gives way to the feed", async () => {
    const renamed = list.rename("a", "Mine");
    expect(shown()).toContainEqual(["a", "Mine"]);
    await renamed;
    list.take(feed(2, { conversations: [row("b", 3, 2)] }));
    expect(shown()).toContainEqual(["a", "Mine"]);
    list.take(feed(3, { conversations: [{ ...row("a", 1, 3), title: "Theirs" }] }));
    expect(shown()).toContainEqual(["a", "Theirs"]);
  });

  it("is the old one when it was refused", async () => {
    run.mockRejectedValue(unanswered());
    await list.rename("a", "Mine");
    expect(list.error).toMatchObject({ code: "offline" });
    expect(shown()).toContainEqual(["a", "Title of a"]);
  });
});

describe("removing", () => {
  it("happens on the server at once and can be undone for a while", async () => {
    const removed = list.remove("a");
    expect(shown().map(([id]) => id)).toEqual(["b"]);
    expect(owner.removed).toHaveBeenCalledWith("a");
    await removed;
    expect(run).toHaveBeenCalledWith("conversation.delete", { conversation_id: "a" });
    expect(list.undo).toEqual({ id: "a", title: "Title of a" });
    list.holdUndo(true);
    vi.advanceTimersByTime(2 * UNDO_MS);
    expect(list.undo).not.toBeNull();
    list.holdUndo(false);
    vi.advanceTimersByTime(UNDO_MS);
    expect(list.undo).toBeNull();
  });

  it("is undone", async () => {
    await list.remove("a");
    await list.undoRemove();
    expect(run).toHaveBeenLastCalledWith("conversation.restore", { conversation_id: "a" });
    expect(owner.restored).toHaveBeenCalledWith("a");
    expect(shown().map(([id]) => id)).toEqual(["b", "a"]);
    expect(list.undo).toBeNull();
  });

  it("that failed shows it again", async () => {
    run.mockRejectedValue(unanswered());
    await list.remove("a");
    expect(list.error).toMatchObject({ code: "offline" });
    expect(shown().map(([id]) => id)).toEqual(["b", "a"]);
    expect(list.undo).toBeNull();
  });

  it("stays undoable when undoing failed", async () => {
    await list.remove("a");
    run.mockRejectedValue(unanswered());
    await list.undoRemove();
    expect(list.error).toMatchObject({ code: "offline" });
    expect(list.undo).toMatchObject({ id: "a" });
    expect(shown().map(([id]) => id)).toEqual(["b"]);
    run.mockResolvedValue({} as ActResult);
    await list.undoRemove();
    expect(list.error).toBeNull();
  });
});
