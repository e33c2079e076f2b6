import fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { StreamFrame } from "../types/api";
import { stream, turn } from "./samples";
import {
  cursorsOf,
  MAX_STREAMS,
  NO_STREAMS,
  partsOf,
  streamsPrune,
  streamsTake,
  type Streams,
} from "./stream";

type Run = StreamFrame["deltas"][number];
const takeAll = (frames: StreamFrame[], from: Streams = NO_STREAMS) =>
  frames.reduce(streamsTake, from);
const runsOf = (streams: Streams) => streams.get("g1")?.runs ?? [];

const delta = fc.tuple(
  fc.constantFrom<Run[0]>("content", "reasoning", "tool_call"),
  fc.string({ minLength: 1, maxLength: 5 }),
);

describe("a stream", () => {
  it("is the same text however it was cut, cut off, repeated or begun anew", () => {
    const cut = fc.record({
      len: fc.integer({ min: 1, max: 5 }),
      then: fc.constantFrom("on", "back", "reset"),
      back: fc.nat(6),
    });
    fc.assert(
      fc.property(fc.array(delta, { maxLength: 30 }), fc.array(cut), (deltas, cuts) => {
        let streams = NO_STREAMS;
        let at = 0; // deltas sent; the cursor names the last one
        for (const { len, then, back } of [...cuts, { len: 100, then: "on", back: 0 }]) {
          if (then === "reset") {
            const all = stream(`7:${String(at - 1)}`, { reset: true, deltas: deltas.slice(0, at) });
            streams = streamsTake(streams, all);
          } else if (then === "back") {
            // frames that were on their way when the client asked again
            for (let old = Math.max(0, at - back); old < at; old += 1) {
              const one = deltas.slice(old, old + 1);
              streams = streamsTake(streams, stream(`7:${String(old)}`, { deltas: one }));
            }
          }
          const next = Math.min(deltas.length, at + len);
          if (next > at) {
            const some = deltas.slice(at, next);
            streams = streamsTake(streams, stream(`7:${String(next - 1)}`, { deltas: some }));
            at = next;
          }
        }
        const whole = takeAll([stream("7:99", { reset: true, deltas })]);
        expect(runsOf(streams)).toEqual(runsOf(whole));
      }),
    );
  });

  it("comes whole in several pieces, none of which is taken for a repeat", () => {
    const streams = takeAll([
      stream("9:4", { deltas: [["content", "old"]] }),
      stream("12:-1", { reset: true, deltas: [["content", "a"]] }),
      stream("12:-1", { deltas: [["content", "b"]] }),
      stream("12:3", { deltas: [["content", "c"]] }),
      stream("12:4", { deltas: [["content", "d"]] }),
      stream("12:4", { deltas: [["content", "d"]] }),
    ]);
    expect(runsOf(streams)).toEqual([["content", "abcd"]]);
  });

  it("has a cursor to go on from, once its text is whole", () => {
    const half = takeAll([stream("12:-1", { reset: true, deltas: [["content", "a"]] })]);
    expect(cursorsOf(half)).toEqual({});
    expect(cursorsOf(takeAll([stream("12:3")], half))).toEqual({ g1: "12:3" });
  });

  it("stands in the queue until it moves, and again when it is put back", () => {
    const place = { ahead: 2, waiting: 3, reason: "" };
    const prefill = { done: 1, total: 9, cached: 0 };
    const waiting = takeAll([stream("0:-1", { place })]);
    expect(waiting.get("g1")?.place).toEqual(place);
    const moving = takeAll([stream("7:1", { prefill })], waiting);
    expect(moving.get("g1")).toMatchObject({ place: null, prefill });
    const back = takeAll([stream("7:1", { place })], moving);
    expect(back.get("g1")).toMatchObject({ place, prefill });
  });

  it("that was gone and goes on has no end", () => {
    const end = { state: "gone" as const, code: "", message: "" };
    const gone = takeAll([stream("7:1", { deltas: [["content", "a"]], end })]);
    expect(gone.get("g1")?.end).toEqual(end);
    const again = takeAll([stream("8:0", { reset: true, deltas: [["content", "b"]] })], gone);
    expect(again.get("g1")).toMatchObject({ end: null, runs: [["content", "b"]] });
  });
});

it("keeps only so many streams", () => {
  const frames = Array.from({ length: MAX_STREAMS + 3 }, (_, index) =>
    stream("1:0", { generation_id: `g${String(index)}` }),
  );
  const streams = takeAll(frames);
  expect(streams.size).toBe(MAX_STREAMS);
  expect(streams.has("g0")).toBe(false);
});

it("forgets the streams of turns that have ended or went on with another generation", () => {
  const streams = takeAll([stream("1:0"), stream("1:0", { turn_id: "t2", generation_id: "g2" })]);
  const turns = (state: "running" | "finished", generation: string) =>
    new Map([["t1", turn("t1", { state, generation_id: generation })]]);
  expect(streamsPrune(streams, turns("running", "g1"))).toBe(streams);
  expect([...streamsPrune(streams, turns("finished", "g1")).keys()]).toEqual(["g2"]);
  expect([...streamsPrune(streams, turns("running", "g9")).keys()]).toEqual(["g2"]);
});

it("has the parts it will be stored as", () => {
  const call = JSON.stringify({ id: "1", name: "clock", arguments: "{}" });
  const streams = takeAll([
    stream("1:3", {
      deltas: [
        ["reasoning", "hm"],
        ["content", "well"],
        ["tool_call", `${call}\n`],
        ["tool_call", `${call}\n`],
      ],
    }),
  ]);
  const parts = [...streams.values()].flatMap(partsOf);
  expect(parts).toMatchObject([
    { type: "reasoning", text: "hm" },
    { type: "text", text: "well" },
    { type: "tool_call", call_id: "1", name: "clock", arguments: "{}" },
    { type: "tool_call", call_id: "1", name: "clock", arguments: "{}" },
  ]);
  const half = takeAll([stream("1:0", { deltas: [["tool_call", '{"id"']] })]);
  expect([...half.values()].flatMap(partsOf)).toMatchObject([
    { type: "tool_call", arguments: '{"id"' },
  ]);
});
