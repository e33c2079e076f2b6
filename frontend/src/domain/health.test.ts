import { describe, expect, it } from "vitest";

import { healthOf, waitMs } from "./health";

describe("healthOf", () => {
  it("is ready on 200", () => {
    expect(healthOf({ status: 200, body: { status: "ok" } }).state).toBe("ready");
  });

  it("is starting on 503 and keeps the server's reason", () => {
    const body = { error: { message: "Loading model", reason: "loading 40 %" } };
    expect(healthOf({ status: 503, body })).toEqual({ state: "starting", reason: "loading 40 %" });
  });

  it("falls back to the message, and to nothing for a body of another shape", () => {
    expect(healthOf({ status: 503, body: { error: { message: "m" } } }).reason).toBe("m");
    for (const body of [null, "text", [], { error: 3 }, { error: { reason: 5 } }]) {
      expect(healthOf({ status: 503, body })).toEqual({ state: "starting", reason: "" });
    }
  });

  it("is unreachable without an answer and on any other status", () => {
    expect(healthOf(null).state).toBe("unreachable");
    expect(healthOf({ status: 502, body: "" }).state).toBe("unreachable");
  });
});

describe("waitMs", () => {
  it("grows with failures up to 30 s", () => {
    const waits = [1, 2, 3, 50].map((failures) => waitMs("unreachable", failures));
    expect(waits).toEqual([1000, 1500, 2250, 30_000]);
  });

  it("is steady while ready", () => {
    expect(waitMs("ready", 0)).toBe(10_000);
  });
});
