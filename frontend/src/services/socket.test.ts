// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { feed, stream } from "../domain/samples";
import { FakeSocket, stubBrowser } from "./fakes";
import type { LinkOwner } from "./link";
import { ACK_FRAMES, ACK_MS, DEAD_MS, PING_MS, READY_MS, Socket } from "./socket";

const open = { type: "open", conversation_id: "c1", revision: 4, cursors: { g: "1:2" } } as const;
const owner = {
  hello: vi.fn<LinkOwner["hello"]>(() => ({ type: "hello", feed: 7 })),
  opens: vi.fn<LinkOwner["opens"]>(() => [open]),
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

function connected(): [Socket, FakeSocket] {
  const socket = new Socket(owner);
  FakeSocket.last.open();
  FakeSocket.last.say(feed(8));
  return [socket, FakeSocket.last];
}

describe("a socket", () => {
  it("says hello and what it follows, and is ready with the first frame", () => {
    const socket = new Socket(owner);
    const fake = FakeSocket.last;
    expect(fake.url).toBe("ws://localhost:3000/api/app/socket");
    fake.open();
    expect(fake.sent).toEqual([{ type: "hello", feed: 7 }, open]);
    expect(socket.isReady).toBe(false);
    fake.say(feed(8));
    expect(socket.isReady).toBe(true);
    expect(owner.ready).toHaveBeenCalledOnce();
    expect(owner.take).toHaveBeenCalledWith(expect.objectContaining({ type: "feed" }));
  });

  it("acknowledges after a while, or at once after many frames", () => {
    const [, fake] = connected();
    expect(fake.framesOf("ack")).toEqual([]);
    vi.advanceTimersByTime(ACK_MS);
    expect(fake.framesOf("ack")).toEqual([{ type: "ack", n: 1 }]);
    for (let index = 0; index < ACK_FRAMES; index += 1) {
      fake.say(stream("1:0"));
    }
    expect(fake.framesOf("ack").at(-1)).toEqual({ type: "ack", n: 1 + ACK_FRAMES });
    vi.advanceTimersByTime(ACK_MS * 4);
    expect(fake.framesOf("ack")).toHaveLength(2);
  });

  it("pings, and is dead when nobody answers", () => {
    const [, fake] = connected();
    vi.advanceTimersByTime(PING_MS);
    expect(fake.framesOf("ping")).toHaveLength(1);
    fake.say({ type: "pong", n: 0 });
    vi.advanceTimersByTime(PING_MS + DEAD_MS - 1);
    expect(owner.closed).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(owner.closed).toHaveBeenCalledWith(1006);
    expect(fake.isClosedByClient).toBe(true);
  });

  it("asks at once when it is poked", () => {
    const [socket, fake] = connected();
    socket.poke();
    expect(fake.framesOf("ping")).toHaveLength(1);
    vi.advanceTimersByTime(DEAD_MS);
    expect(owner.closed).toHaveBeenCalledOnce();
  });

  it("gives up when it isn't ready in time", () => {
    new Socket(owner);
    FakeSocket.last.open();
    vi.advanceTimersByTime(READY_MS);
    expect(owner.closed).toHaveBeenCalledWith(1006);
  });

  it("tells the code it was closed with, once", () => {
    const [, fake] = connected();
    fake.end(4401);
    fake.end(1006);
    vi.advanceTimersByTime(60_000);
    expect(owner.closed.mock.calls).toEqual([[4401]]);
  });

  it("takes no notice of frames that it doesn't know", () => {
    const [, fake] = connected();
    for (const data of ["{", "null", "3", '{"type":"later"}', new ArrayBuffer(2)]) {
      fake.onmessage?.({ data });
    }
    expect(owner.take).toHaveBeenCalledOnce();
  });

  it("is silent after it was left", () => {
    const [socket, fake] = connected();
    socket.close();
    fake.end(1000);
    socket.send({ type: "ping" });
    vi.advanceTimersByTime(60_000);
    expect(owner.closed).not.toHaveBeenCalled();
    expect(fake.framesOf("ping")).toEqual([]);
  });
});
