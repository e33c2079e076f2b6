import fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { ConversationFrame, MessageOut, TurnOut } from "../types/api";
import { NO_ROWS, rowsInterrupted, rowsTake, type Rows } from "./conversation";
import { conversation, message, state, text, turn } from "./samples";

/** A conversation on a server, and the frames it would send. */
class World {
  revision = 0;
  readonly messages = new Map<string, MessageOut>();
  readonly turns = new Map<string, TurnOut>();

  do(op: number, pick: number): void {
    this.revision += 1;
    const { revision } = this;
    const living = [...this.messages.values()].filter((row) => !row.is_deleted);
    const chosen = living[pick % Math.max(living.length, 1)];
    if (chosen === undefined || op < 3) {
      const id = `m${String(revision)}`;
      const parent = chosen?.id ?? null;
      this.messages.set(id, message(id, { number: revision, revision, parent_id: parent }));
      const name = `t${String(revision)}`;
      this.turns.set(name, turn(name, { answer_id: id, revision }));
    } else if (op < 5) {
      const parts = [text(`edit ${String(revision)}`)];
      this.messages.set(chosen.id, { ...chosen, revision, parts });
    } else {
      this.messages.set(chosen.id, { ...chosen, revision, is_deleted: true, parts: [] });
      for (const row of this.turns.values()) {
        if (row.answer_id === chosen.id) {
          this.turns.set(row.id, { ...row, revision, is_deleted: true });
        }
      }
    }
  }

  /** All living rows, in chunks of `size`. */
  snapshot(size: number): ConversationFrame[] {
    const messages = [...this.messages.values()].filter((row) => !row.is_deleted);
    const turns = [...this.turns.values()].filter((row) => !row.is_deleted);
    return this.#frames(messages, turns, size, true, 0);
  }

  changes(since: number, size: number): ConversationFrame[] {
    const messages = [...this.messages.values()].filter((row) => row.revision > since);
    const turns = [...this.turns.values()].filter((row) => row.revision > since);
    return this.#frames(messages, turns, size, false, since);
  }

  #frames(
    messages: MessageOut[],
    turns: TurnOut[],
    size: number,
    reset: boolean,
    before: number,
  ): ConversationFrame[] {
    const of = conversation("c1", { revision: this.revision });
    const num = Math.max(1, Math.ceil(Math.max(messages.length, turns.length) / size));
    return Array.from({ length: num }, (_, index) => {
      const isLast = index === num - 1;
      return state(of, {
        reset: reset && index === 0,
        revision: isLast ? this.revision : before,
        has_more: !isLast,
        messages: messages.slice(index * size, (index + 1) * size),
        turns: turns.slice(index * size, (index + 1) * size),
      });
    });
  }
}

function living(rows: Rows): unknown {
  const alive = <T extends { is_deleted: boolean; id: string }>(all: ReadonlyMap<string, T>) =>
    [...all.values()].filter((row) => !row.is_deleted).sort((a, b) => (a.id < b.id ? -1 : 1));
  return {
    conversation: rows.conversation,
    revision: rows.revision,
    messages: alive(rows.messages),
    turns: alive(rows.turns),
  };
}

const step = fc.record({
  op: fc.nat(5),
  pick: fc.nat(),
  size: fc.integer({ min: 1, max: 4 }),
  // what the client does after it: nothing, take changes, lose the connection in the middle,
  // begin anew, or get old frames once more
  then: fc.constantFrom("nothing", "changes", "cut", "reset", "repeat"),
});

describe("old state and frames", () => {
  it("make the fresh state, however they were split, cut off or repeated", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const world = new World();
        let rows = world.snapshot(1).reduce(rowsTake, NO_ROWS);
        const sent: ConversationFrame[][] = [];
        for (const { op, pick, size, then } of steps) {
          world.do(op, pick);
          const frames =
            then === "reset" ? world.snapshot(size) : world.changes(rows.revision ?? 0, size);
          if (then === "cut") {
            const before = living(rows);
            rows = rowsInterrupted(frames.slice(0, -1).reduce(rowsTake, rows));
            expect(living(rows)).toEqual(before);
          } else if (then === "repeat") {
            const old = sent[pick % Math.max(sent.length, 1)] ?? [];
            rows =
              old.filter((frame) => !frame.reset).length === old.length
                ? old.reduce(rowsTake, rows)
                : rows;
          } else if (then !== "nothing") {
            rows = frames.reduce(rowsTake, rows);
            sent.push(frames);
            const fresh = world.snapshot(100).reduce(rowsTake, NO_ROWS);
            expect(living(rows)).toEqual(living(fresh));
          }
        }
        rows = world.changes(rows.revision ?? 0, 2).reduce(rowsTake, rows);
        const fresh = world.snapshot(3).reduce(rowsTake, NO_ROWS);
        expect(living(rows)).toEqual(living(fresh));
      }),
      { numRuns: 300 },
    );
  });
});

describe("rowsTake", () => {
  const one = conversation("c1", { revision: 5 });
  const rows = rowsTake(NO_ROWS, state(one, { messages: [message("m1", { revision: 5 })] }));

  it("never replaces a row by an older one", () => {
    const old = state(conversation("c1", { revision: 3, title: "old" }), {
      reset: false,
      messages: [message("m1", { revision: 3, parts: [] })],
    });
    const after = rowsTake(rows, old);
    expect(after.messages.get("m1")).toBe(rows.messages.get("m1"));
    expect(after.conversation).toBe(one);
    expect(after.revision).toBe(5);
  });

  it("keeps the object of a row that is the same after a reset", () => {
    const after = rowsTake(rows, state(one, { messages: [message("m1", { revision: 5 })] }));
    expect(after.messages.get("m1")).toBe(rows.messages.get("m1"));
  });

  it("shows nothing of several frames before the last one", () => {
    const first = rowsTake(rows, state(one, { has_more: true, messages: [] }));
    expect(first.messages).toBe(rows.messages);
    expect(first.revision).toBe(5);
  });

  it("ignores changes of what isn't here", () => {
    const changes = state(one, { reset: false, messages: [message("m2")] });
    expect(rowsTake(NO_ROWS, changes).messages.size).toBe(0);
  });

  it("obeys a reset that goes back: the server's data is what it is", () => {
    const back = rowsTake(rows, state(conversation("c1", { revision: 2 }), { messages: [] }));
    expect(back.revision).toBe(2);
    expect(back.messages.size).toBe(0);
  });
});
