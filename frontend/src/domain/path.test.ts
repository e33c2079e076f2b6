import { describe, expect, it } from "vitest";

import type { MessageOut, TurnOut } from "../types/api";
import { PathMaker, phaseOf, turnsByAnswer } from "./path";
import { message, stream, text, turn } from "./samples";
import { NO_STREAMS, streamsTake, type Stream } from "./stream";
import { Tree } from "./tree";

function streamOf(...frames: Parameters<typeof stream>[1][]): Stream | undefined {
  return frames
    .map((fields, index) => stream(`1:${String(index)}`, fields))
    .reduce(streamsTake, NO_STREAMS)
    .get("g1");
}

describe("phaseOf", () => {
  const place = { ahead: 0, waiting: 1, reason: "" };
  const prefill = { done: 1, total: 2, cached: 0 };
  const deltas: [["content", string]] = [["content", "a"]];
  const end = { state: "finished" as const, code: "stop", message: "" };
  const queued = turn("t1", { state: "queued" });
  const running = turn("t1");

  it.each([
    ["queued", queued, streamOf(), false],
    ["prefill", running, streamOf(), false],
    ["queued", queued, streamOf({ place }), false],
    ["queued", running, streamOf({ deltas }, { place }), false],
    ["prefill", queued, streamOf({ place }, { prefill }), false],
    ["generating", queued, streamOf({ prefill }, { deltas }), false],
    ["stopping", running, streamOf({ deltas }), true],
    ["stopping", turn("t1", { is_stopping: true }), streamOf({ deltas }), false],
    ["ending", running, streamOf({ deltas, end }), true],
  ] as const)("%s", (phase, of, at, isStopping) => {
    expect(phaseOf(of, at, isStopping)).toBe(phase);
  });
});

describe("the path", () => {
  const rows = (...messages: MessageOut[]) => new Map(messages.map((row) => [row.id, row]));
  const question = message("u1");
  const answer = (fields: Partial<MessageOut> = {}) =>
    message("a1", { parent_id: "u1", number: 2, role: "assistant", ...fields });
  const writing = rows(question, answer({ state: "streaming", parts: [] }));
  const nobody: ReadonlySet<string> = new Set();
  const turns = (...all: TurnOut[]) => turnsByAnswer(new Map(all.map((row) => [row.id, row])));

  it("shows the stream of an answer that is being written", () => {
    const streams = streamsTake(NO_STREAMS, stream("1:0", { deltas: [["content", "so far"]] }));
    const [first, last] = new PathMaker().make({
      tree: new Tree(writing),
      leafId: "a1",
      turns: turns(turn("t1")),
      streams,
      stopping: nobody,
    });
    expect(first?.live).toBeNull();
    expect(last).toMatchObject({ parts: [text("so far")], live: { phase: "generating" } });
  });

  it("shows what is stored as soon as it is", () => {
    const [, last] = new PathMaker().make({
      tree: new Tree(rows(question, answer({ parts: [text("whole")] }))),
      leafId: "a1",
      turns: turns(turn("t1", { state: "finished" })),
      streams: streamsTake(NO_STREAMS, stream("1:0", { deltas: [["content", "so far"]] })),
      stopping: nobody,
    });
    expect(last).toMatchObject({ parts: [text("whole")], live: null });
  });

  it("keeps the objects of what didn't change", () => {
    const maker = new PathMaker();
    const sources = {
      tree: new Tree(writing),
      leafId: "a1",
      turns: turns(turn("t1")),
      streams: NO_STREAMS,
      stopping: nobody,
    };
    const before = maker.make(sources);
    expect(maker.make({ ...sources })).toBe(before);
    const streams = streamsTake(NO_STREAMS, stream("1:0", { deltas: [["content", "a"]] }));
    const after = maker.make({ ...sources, streams });
    expect(after[0]).toBe(before[0]);
    expect(after[1]).not.toBe(before[1]);
  });

  it("counts alternatives", () => {
    const other = message("a2", { parent_id: "u1", number: 3 });
    const [, shown] = new PathMaker().make({
      tree: new Tree(rows(question, answer(), other)),
      leafId: "a2",
      turns: turns(),
      streams: NO_STREAMS,
      stopping: nobody,
    });
    expect(shown).toMatchObject({ siblings: ["a1", "a2"], index: 1 });
  });

  it("names the newest turn of an answer", () => {
    const old = turn("t1", { created_at: "2026-01-01T00:00:00Z" });
    const young = turn("t0", { created_at: "2026-01-01T00:00:01Z" });
    expect(turns(young, old).get("a1")).toBe(young);
    expect(turns(turn("t1", { is_deleted: true })).size).toBe(0);
  });
});
