// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import {
  conversation,
  feed,
  ME,
  message,
  model,
  state,
  stream,
  text,
  turn,
} from "../domain/samples";
import { FakeSocket, stubBrowser, type FakeServer } from "../services/fakes";
import type { ActResult } from "../types/api";
import { AppStore } from "./app.svelte";

let app: AppStore;
let server: FakeServer;

beforeEach(() => {
  vi.useFakeTimers();
  localStorage.clear();
  server = stubBrowser();
  app = new AppStore(ME);
  app.start();
});
afterEach(() => {
  app.stop();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

function connect(): FakeSocket {
  FakeSocket.last.open();
  FakeSocket.last.say(feed(1, { reset: true, conversations: [conversation("c1")] }));
  return FakeSocket.last;
}

const opened = (socket: FakeSocket) => socket.framesOf("open").map((open) => open.conversation_id);

const one = state(conversation("c1", { current_leaf_id: "a1" }), {
  messages: [
    message("u1"),
    message("a1", { parent_id: "u1", number: 2, role: "assistant", state: "streaming", parts: [] }),
  ],
  turns: [turn("t1")],
});

/** The server confirms the last act. */
async function confirm(socket: FakeSocket, result: Partial<ActResult>): Promise<void> {
  const act = socket.framesOf("act").at(-1);
  socket.say({
    type: "reply",
    n: 0,
    ref: act?.ref ?? "",
    error: null,
    result: {
      conversation_id: null,
      revision: null,
      message_id: null,
      turn_id: null,
      answer_id: null,
      was_stopped: null,
      was_told: null,
      ...result,
    },
  });
  await vi.advanceTimersByTimeAsync(0);
}

it("takes what changes among the models", () => {
  const socket = connect();
  const models = [model("a", { is_default: true }), model("b", { state: "unloaded" })];
  socket.say({ type: "models", n: 2, names: ["a", "b"], models });
  const comes = model("b", { state: "loading", load_progress: 0.5 });
  socket.say({ type: "models", n: 3, names: ["a", "b"], models: [comes] });
  expect(app.account.models).toEqual([models[0], comes]);
});

describe("what is followed", () => {
  it("is asked for when it is opened, and only once", () => {
    const socket = connect();
    app.open("c1");
    app.open("c1");
    expect(opened(socket)).toEqual(["c1"]);
    expect(app.chat).toMatchObject({ id: "c1", isLoading: true, canWrite: false });
    socket.say(one);
    expect(app.chat.isLoading).toBe(false);
    expect(app.chat.path.map(({ id }) => id)).toEqual(["u1", "a1"]);
    app.open(null);
    expect(app.chat).toMatchObject({ id: null, path: [], canWrite: true });
    app.open("c1");
    expect(opened(socket)).toEqual(["c1"]);
    expect(app.chat.isLoading).toBe(false);
  });

  it("goes on while another one is shown", () => {
    const socket = connect();
    app.open("c1");
    socket.say(one);
    app.open(null);
    socket.say(stream("1:0", { deltas: [["content", "behind"]] }));
    app.open("c1");
    expect(app.chat.path.at(-1)?.parts).toEqual([text("behind")]);
  });

  it("is bounded: the one that wasn't used for the longest time is let go", () => {
    const socket = connect();
    for (const id of ["c1", "c2", "c3", "c1", "c4"]) {
      app.open(id);
    }
    expect(socket.framesOf("close").map((frame) => frame.conversation_id)).toEqual(["c2"]);
    app.open("c2");
    expect(opened(socket)).toEqual(["c1", "c2", "c3", "c4", "c2"]);
  });

  it("is taken up again after a reconnect, from what is here", async () => {
    const first = connect();
    app.open("c1");
    first.say(one);
    first.say(stream("7:4", { deltas: [["content", "half"]] }));
    first.say(state(conversation("c1", { revision: 9 }), { reset: false, has_more: true }));
    first.end();
    await vi.advanceTimersByTimeAsync(500);
    const second = FakeSocket.last;
    second.open();
    expect(second.sent).toEqual([
      { type: "hello", feed: 1 },
      { type: "open", conversation_id: "c1", revision: 1, cursors: { g1: "7:4" } },
    ]);
    second.say(feed(1));
    second.say(stream("7:5", { deltas: [["content", " whole"]] }));
    expect(app.chat.path.at(-1)?.parts).toEqual([text("half whole")]);
  });

  it("is absent when the server says so, and can come back", () => {
    const socket = connect();
    app.open("c1");
    socket.say(one);
    socket.say({ type: "closed", n: 0, conversation_id: "c1", reason: "gone" });
    expect(app.chat).toMatchObject({ isAbsent: true, path: [], isLoading: false });
    app.open("c1");
    expect(opened(socket)).toEqual(["c1", "c1"]);
    expect(app.chat.isAbsent).toBe(false);
  });

  it("comes back by itself when it is given back elsewhere", () => {
    const socket = connect();
    app.open("c1");
    socket.say(one);
    socket.say({ type: "closed", n: 0, conversation_id: "c1", reason: "gone" });
    socket.say(feed(2, { gone: ["c1"] }));
    expect(app.chat.isAbsent).toBe(true);
    socket.say(feed(3, { conversations: [conversation("c1", { revision: 3 })] }));
    expect(opened(socket)).toEqual(["c1", "c1"]);
    expect(app.chat).toMatchObject({ isAbsent: false, isLoading: true });
    socket.say(feed(4, { conversations: [conversation("c1", { revision: 4 })] }));
    expect(opened(socket)).toEqual(["c1", "c1"]);
  });

  it("isn't asked for by an id that can't be", () => {
    const socket = connect();
    app.open("../x");
    expect(app.chat.isAbsent).toBe(true);
    expect(opened(socket)).toEqual([]);
  });
});

describe("the first message", () => {
  it("makes the conversation without losing anything", async () => {
    const socket = connect();
    const { chat } = app;
    chat.draft = "Hello";
    void chat.send("Hello");
    expect(chat.outgoing).toMatchObject({ text: "Hello", error: null });
    expect(chat.draft).toBe("");
    const act = socket.framesOf("act")[0];
    expect(act).toMatchObject({ name: "turn.start", args: { conversation_id: null } });
    expect(act?.args["client_key"]).toBe(chat.outgoing?.clientKey);
    const confirmed = { conversation_id: "c1", message_id: "u1", turn_id: "t1", answer_id: "a1" };
    await confirm(socket, confirmed);
    expect(app.chat).toBe(chat);
    expect(chat.id).toBe("c1");
    expect(opened(socket)).toEqual(["c1"]);
    expect(chat.outgoing?.text).toBe("Hello"); // until its row is here
    socket.say(one);
    expect(chat.outgoing).toBeNull();
    expect(chat.isRunning).toBe(true);
    expect(localStorage.length).toBe(0);
    app.open("c1"); // the address follows
    expect(app.chat).toBe(chat);
    app.open(null);
    expect(app.chat).not.toBe(chat);
    expect(app.chat.outgoing).toBeNull();
  });

  it("goes on by itself when another chat is looked at", async () => {
    const socket = connect();
    const { chat } = app;
    void chat.send("Hello");
    app.open("c2");
    await confirm(socket, { conversation_id: "c9", message_id: "u1" });
    expect(app.chat.id).toBe("c2");
    expect(chat.id).toBe("c9");
    expect(opened(socket)).toEqual(["c2", "c9"]);
    app.open("c9");
    expect(app.chat).toBe(chat);
  });
});

describe("a removed conversation", () => {
  it("is left, and shown again when that is undone", async () => {
    const socket = connect();
    app.open("c1");
    socket.say(one);
    void app.conversations.remove("c1");
    expect(app.chat.id).toBeNull();
    expect(app.conversations.rows).toEqual([]);
    socket.say({ type: "closed", n: 0, conversation_id: "c1", reason: "gone" });
    await confirm(socket, {});
    void app.conversations.undoRemove();
    await confirm(socket, {});
    expect(app.chat.id).toBe("c1");
    expect(opened(socket)).toEqual(["c1", "c1"]);
  });
});

it("asks who is signed in when the connection says nobody, and goes to the login page", async () => {
  const assign = vi.fn();
  vi.stubGlobal("location", { ...location, pathname: "/c/1", search: "", assign, host: "x" });
  server.answers = [{ status: 401, body: { error: { code: "signed_out", message: "" } } }];
  connect().end(4401);
  await vi.advanceTimersByTimeAsync(0);
  expect(assign).toHaveBeenCalledWith("/accounts/login/?next=%2Fc%2F1");
});

it("begins anew when somebody else has signed in meanwhile", async () => {
  const reload = vi.fn();
  vi.stubGlobal("location", { ...location, reload, host: "x" });
  const socket = connect();
  server.answers = [{ status: 200, body: ME }];
  socket.end();
  await vi.advanceTimersByTimeAsync(500);
  connect();
  await vi.advanceTimersByTimeAsync(0);
  expect(server.calls.map(({ path }) => path)).toEqual(["/api/app/me"]);
  expect(reload).not.toHaveBeenCalled();
  server.answers = [{ status: 200, body: { ...ME, username: "bob" } }];
  FakeSocket.last.end();
  await vi.advanceTimersByTimeAsync(1_000);
  connect();
  await vi.advanceTimersByTimeAsync(0);
  expect(reload).toHaveBeenCalledOnce();
});

it("is loaded anew when the server can't read what it sends, but not in a circle", async () => {
  const reload = vi.fn();
  vi.stubGlobal("location", { ...location, reload, host: "x" });
  sessionStorage.clear();
  for (let times = 0; times < 2; times += 1) {
    connect().end(4400);
    await vi.advanceTimersByTimeAsync(2_000);
  }
  expect(reload).toHaveBeenCalledOnce();
});

it("shows how the connection is", async () => {
  expect(app.connection).toBe("connecting");
  const socket = connect();
  expect(app.connection).toBe("live");
  socket.end();
  for (let tries = 0; tries < 2; tries += 1) {
    await vi.advanceTimersByTimeAsync(1_000);
    FakeSocket.last.end();
    await vi.advanceTimersByTimeAsync(0);
  }
  expect(app.connection).toBe("offline");
  expect(app.retryAt).toBeGreaterThan(Date.now());
  app.reconnectNow();
  expect(app).toMatchObject({ connection: "offline", retryAt: null });
});
