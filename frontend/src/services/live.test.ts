// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { feed } from "../domain/samples";
import type { ActResult } from "../types/api";
import type { ConnectionState } from "../types/stores";
import { FakeEvents, FakeSocket, stubBrowser } from "./fakes";
import { Live, STABLE_MS, TRY_SOCKET_AGAIN_MS, type LiveClient } from "./live";

let live: Live;
let states: ConnectionState[];
const client = {
  hello: vi.fn<LiveClient["hello"]>(() => ({ type: "hello", feed: null })),
  opens: vi.fn<LiveClient["opens"]>(() => []),
  take: vi.fn<LiveClient["take"]>(),
  interrupted: vi.fn<LiveClient["interrupted"]>(),
  changed: vi.fn<LiveClient["changed"]>((state) => {
    if (states.at(-1) !== state) {
      states.push(state);
    }
  }),
  misunderstood: vi.fn<LiveClient["misunderstood"]>(),
  checkSignedIn: vi.fn<LiveClient["checkSignedIn"]>(() => Promise.resolve()),
};

beforeEach(() => {
  vi.useFakeTimers();
  stubBrowser();
  vi.clearAllMocks();
  states = [];
  live = new Live(client);
  live.start();
});
afterEach(() => {
  live.stop();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

function connect(): FakeSocket {
  FakeSocket.last.open();
  FakeSocket.last.say(feed(1));
  return FakeSocket.last;
}

/** The socket can't be opened `num` times. */
async function refuse(num: number): Promise<void> {
  for (let index = 1; index <= num; index += 1) {
    FakeSocket.last.end();
    await vi.advanceTimersByTimeAsync(0);
    while (index < num && FakeSocket.all.length === index) {
      await vi.advanceTimersByTimeAsync(100);
    }
  }
}

describe("the connection", () => {
  it("is live with its first frame, and connects again when it is lost", async () => {
    const first = connect();
    expect(states).toEqual(["connecting", "live"]);
    first.end();
    expect(client.interrupted).toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(500);
    expect(FakeSocket.all).toHaveLength(2);
    connect();
    expect(states).toEqual(["connecting", "live", "connecting", "live"]);
  });

  it("waits longer after each failure and says until when", async () => {
    connect().end();
    const waits: number[] = [];
    for (let index = 0; index < 8; index += 1) {
      const before = Date.now();
      const num = FakeSocket.all.length;
      while (FakeSocket.all.length === num) {
        await vi.advanceTimersByTimeAsync(100);
      }
      waits.push(Date.now() - before);
      FakeSocket.last.end();
      await vi.advanceTimersByTimeAsync(0);
    }
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
    // Said once, not with each try.
    expect(states).toEqual(["connecting", "live", "connecting", "offline"]);
    expect(client.changed).toHaveBeenCalledWith("offline", null);
    await vi.advanceTimersByTimeAsync(30_000);
    connect();
    expect(states.at(-1)).toBe("live");
  });

  it("tries at once when the browser is online or looked at again", async () => {
    connect().end();
    await vi.advanceTimersByTimeAsync(500);
    for (const [event, target] of [
      ["online", window],
      ["visibilitychange", document],
    ] as const) {
      FakeSocket.last.end();
      await vi.advanceTimersByTimeAsync(0);
      const num = FakeSocket.all.length;
      target.dispatchEvent(new Event(event));
      expect(FakeSocket.all).toHaveLength(num + 1);
    }
  });

  it("asks whether anybody is there when it seems to be up", () => {
    const socket = connect();
    live.reconnectNow();
    expect(socket.framesOf("ping")).toHaveLength(1);
    expect(FakeSocket.all).toHaveLength(1);
  });

  it("is made anew at once when the server restarts", async () => {
    const socket = connect();
    await vi.advanceTimersByTimeAsync(STABLE_MS);
    socket.say({ type: "pong", n: 0 });
    socket.end(1012);
    await vi.advanceTimersByTimeAsync(300);
    expect(FakeSocket.all).toHaveLength(2);
  });

  it("asks who is signed in when it is told that nobody is", async () => {
    connect().end(4401);
    await vi.advanceTimersByTimeAsync(0);
    expect(client.checkSignedIn).toHaveBeenCalledOnce();
    await vi.advanceTimersByTimeAsync(500);
    expect(FakeSocket.all).toHaveLength(2); // a changed password: still signed in
  });

  it("does nothing any more once it is stopped", async () => {
    const socket = connect();
    live.stop();
    socket.end();
    window.dispatchEvent(new Event("online"));
    await vi.advanceTimersByTimeAsync(120_000);
    expect(FakeSocket.all).toHaveLength(1);
    expect(socket.isClosedByClient).toBe(true);
  });
});

describe("the fallback", () => {
  beforeEach(() => refuse(3));

  it("begins when the socket couldn't be opened several times", () => {
    expect(FakeEvents.all).toHaveLength(1);
    FakeEvents.last.say(feed(1));
    expect(states.at(-1)).toBe("fallback");
    expect(client.take).toHaveBeenCalledOnce();
    expect(live.canAct).toBe(false);
  });

  it("gives way as soon as a socket opens, before that says how far the tab is", async () => {
    FakeEvents.last.say(feed(1));
    await vi.advanceTimersByTimeAsync(TRY_SOCKET_AGAIN_MS);
    expect(states.at(-1)).toBe("fallback");
    client.hello.mockImplementationOnce(() => {
      expect(FakeEvents.last.isClosed).toBe(true);
      return { type: "hello", feed: 1 };
    });
    connect();
    expect(states.at(-1)).toBe("live");
    await vi.advanceTimersByTimeAsync(5_000);
    expect(FakeEvents.all).toHaveLength(1);
  });

  it("goes on when the socket that opened says nothing", async () => {
    FakeEvents.last.say(feed(1));
    await vi.advanceTimersByTimeAsync(TRY_SOCKET_AGAIN_MS);
    FakeSocket.last.open();
    FakeSocket.last.end();
    await vi.advanceTimersByTimeAsync(0);
    expect(FakeEvents.all).toHaveLength(2);
    expect(FakeEvents.last.isClosed).toBe(false);
  });

  it("is asked anew when another conversation is opened", () => {
    FakeEvents.last.say(feed(1));
    live.open({ type: "open", conversation_id: "c1", revision: null, cursors: {} });
    expect(FakeEvents.all).toHaveLength(2);
    expect(FakeEvents.all[0]?.isClosed).toBe(true);
  });

  it("is tried again too, and a refusal may mean that nobody is signed in", async () => {
    FakeEvents.last.onerror?.();
    await vi.advanceTimersByTimeAsync(0);
    expect(client.checkSignedIn).toHaveBeenCalledOnce();
    await vi.advanceTimersByTimeAsync(500);
    expect(FakeEvents.all).toHaveLength(2);
  });
});

describe("acts", () => {
  const result = { revision: 3 } as ActResult;

  it("get the reply with their name", async () => {
    const socket = connect();
    const one = live.act("turn.stop", { turn_id: "t1" });
    const two = live.act("turn.stop", { turn_id: "t2" });
    const [first, second] = socket.framesOf("act");
    const error = { code: "busy", message: "No.", param: null, retryable: true, retry_after_s: 1 };
    socket.say({ type: "reply", n: 0, ref: second?.ref ?? "", result: null, error });
    socket.say({ type: "reply", n: 0, ref: first?.ref ?? "", result, error: null });
    await expect(two).rejects.toMatchObject({ code: "busy", isUnanswered: false });
    expect(await one).toEqual(result);
  });

  it("are unanswered when the connection ends", async () => {
    const socket = connect();
    const answer = live.act("turn.stop", { turn_id: "t1" });
    socket.end();
    await expect(answer).rejects.toMatchObject({ isUnanswered: true });
    await expect(live.act("turn.stop", {})).rejects.toMatchObject({ isUnanswered: true });
  });
});
