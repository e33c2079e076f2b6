import fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { ConversationOut } from "../types/api";
import { listShown, listTake, listTakePage, NO_LIST, type List } from "./list";
import { conversation, feed } from "./samples";

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)).toISOString();
const row = (id: string, seconds: number, revision = 1) =>
  conversation(id, { updated_at: at(seconds), revision });
const ids = (list: List) => listShown(list).map(({ id }) => id);

describe("the list", () => {
  const reset = feed(5, { reset: true, conversations: [row("c", 3), row("b", 2)], next: "x" });

  it("shows the newest activity first", () => {
    const list = listTake(NO_LIST, reset);
    expect(ids(list)).toEqual(["c", "b"]);
    const after = listTake(list, feed(6, { conversations: [row("b", 9, 2), row("d", 4)] }));
    expect(ids(after)).toEqual(["b", "d", "c"]);
  });

  it("breaks ties like the server", () => {
    const same = feed(1, { reset: true, conversations: [row("a", 1), row("z", 1), row("m", 1)] });
    expect(ids(listTake(NO_LIST, same))).toEqual(["z", "m", "a"]);
  });

  it("has no holes: what is older than the last page waits for its own", () => {
    const list = listTake(NO_LIST, reset);
    const renamed = listTake(list, feed(6, { conversations: [row("a", 0, 7)] }));
    expect(ids(renamed)).toEqual(["c", "b"]);
    const page = { conversations: [row("bb", 1), row("a", 0, 6)], next: null };
    const more = listTakePage(renamed, page);
    expect(ids(more)).toEqual(["c", "b", "bb", "a"]);
    expect(listShown(more).at(-1)?.revision).toBe(7);
  });

  it("does not bring back what went while a page was on its way", () => {
    const gone = listTake(listTake(NO_LIST, reset), feed(6, { gone: ["a", "c"] }));
    const more = listTakePage(gone, { conversations: [row("a", 0)], next: null });
    expect(ids(more)).toEqual(["b"]);
    const back = listTake(more, feed(7, { conversations: [row("a", 0, 3)] }));
    expect(ids(back)).toEqual(["b", "a"]);
  });

  it("never replaces a row by an older one, nor goes back to an older frame", () => {
    const list = listTake(NO_LIST, feed(5, { reset: true, conversations: [row("a", 5, 5)] }));
    const page = listTakePage(list, { conversations: [row("a", 1, 1)], next: null });
    expect(listShown(page)[0]?.revision).toBe(5);
    expect(listTake(list, feed(4, { gone: ["a"] }))).toBe(list);
  });
});

it("old list and frames make the fresh list", () => {
  const op = fc.record({ id: fc.constantFrom("a", "b", "c", "d", "e"), goes: fc.boolean() });
  const steps = fc.array(fc.record({ ops: fc.array(op, { maxLength: 4 }), send: fc.boolean() }));
  fc.assert(
    fc.property(steps, (all) => {
      const world = new Map<string, { row: ConversationOut | null; revision: number }>();
      let revision = 0;
      let list = listTake(NO_LIST, feed(0, { reset: true }));
      const send = () => {
        const changed = [...world].filter(([, each]) => each.revision > (list.revision ?? 0));
        const conversations = changed.flatMap(([, each]) => each.row ?? []);
        const gone = changed.filter(([, each]) => each.row === null).map(([id]) => id);
        list = listTake(list, feed(revision, { conversations, gone }));
      };
      for (const { ops, send: isSent } of all) {
        for (const { id, goes } of ops) {
          revision += 1;
          world.set(id, { revision, row: goes ? null : row(id, revision, revision) });
        }
        if (isSent) {
          send();
        }
      }
      send();
      const rows = [...world.values()].flatMap((each) => each.row ?? []);
      const fresh = listTake(NO_LIST, feed(revision, { reset: true, conversations: rows }));
      expect(listShown(list)).toEqual(listShown(fresh));
    }),
  );
});
