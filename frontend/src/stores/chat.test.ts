// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from "vitest";

import { CallError, unanswered } from "../domain/errors";
import { conversation, message, state, stream, text, turn } from "../domain/samples";
import type { Acts } from "../services/acts";
import { Drafts } from "../services/drafts";
import type { ActResult, MessageOut, TurnOut } from "../types/api";
import { ChatStore } from "./chat.svelte";

const NOTHING: ActResult = {
  conversation_id: null,
  revision: null,
  message_id: null,
  turn_id: null,
  answer_id: null,
  was_stopped: null,
  was_told: null,
};
const BUSY = new CallError({
  code: "busy",
  message: "Too many.",
  param: null,
  retryable: true,
  retry_after_s: 1,
});
const run = vi.fn<(name: string, args: Record<string, unknown>) => Promise<ActResult>>();
const acts = { run } as unknown as Acts;
const owner = { began: vi.fn() };
const drafts = new Drafts("alice");
let chat: ChatStore;

const question = message("u1");
const answer = message("a1", { parent_id: "u1", number: 2, role: "assistant" });
const writing = { ...answer, state: "streaming", parts: [] } satisfies MessageOut;

function rows(
  messages: MessageOut[],
  { turns = [] as TurnOut[], revision = 1, leaf = messages.at(-1)?.id ?? null, reset = true } = {},
): void {
  const of = conversation("c1", { revision, current_leaf_id: leaf });
  chat.take(state(of, { messages, turns, reset }));
}

const path = () => chat.path.map(({ id }) => id);

beforeEach(() => {
  localStorage.clear();
  run.mockReset().mockResolvedValue(NOTHING);
  owner.began.mockReset();
  chat = new ChatStore("c1", acts, drafts, owner);
});

describe("sending", () => {
  beforeEach(() => {
    rows([question, answer]);
  });

  it("names what it follows and the model, and waits for its row", async () => {
    run.mockResolvedValue({ ...NOTHING, message_id: "u2" });
    chat.modelName = "big";
    await chat.send("More");
    expect(run).toHaveBeenCalledWith("turn.start", {
      conversation_id: "c1",
      parts: [{ type: "text", text: "More" }],
      parent_id: "a1",
      model_name: "big",
      client_key: expect.stringMatching(/^[0-9a-f]{32}$/) as string,
    });
    expect(chat.outgoing?.text).toBe("More");
    const mine = message("u2", { parent_id: "a1", number: 3, revision: 2, parts: [text("More")] });
    rows([mine], { revision: 2, reset: false });
    expect(chat.outgoing).toBeNull();
    expect(path()).toEqual(["u1", "a1", "u2"]);
  });

  it("doesn't wait for a row that was deleted before this tab could see it", async () => {
    run.mockResolvedValue({ ...NOTHING, message_id: "u2", revision: 2 });
    await chat.send("More");
    rows([question, answer], { revision: 1 });
    expect(chat.outgoing?.text).toBe("More");
    rows([question, answer], { revision: 3 });
    expect(chat.outgoing).toBeNull();
  });

  it("keeps the draft until it is confirmed", async () => {
    let done: (result: ActResult) => void = () => undefined;
    run.mockReturnValue(new Promise((resolve) => (done = resolve)));
    chat.draft = "More";
    const sent = chat.send("More");
    expect(chat.draft).toBe("");
    expect(drafts.read("c1").sending?.text).toBe("More");
    done({ ...NOTHING, message_id: "u2" });
    await sent;
    expect(drafts.read("c1")).toEqual({ text: "", sending: null });
  });

  it("keeps a refused text, sends it again by the same name, or gives it back", async () => {
    run.mockRejectedValue(BUSY);
    await chat.send("More");
    expect(chat.outgoing).toMatchObject({ text: "More", error: { code: "busy" } });
    const key = chat.outgoing?.clientKey;
    chat.draft = "something else";
    await chat.sendAgain();
    expect(run.mock.calls.map(([, args]) => args["client_key"])).toEqual([key, key]);
    chat.takeBack();
    expect(chat.outgoing).toBeNull();
    expect(chat.draft).toBe("More\n\nsomething else");
  });

  it("takes one message at a time, and no empty one", async () => {
    await chat.send("  \n");
    expect(run).not.toHaveBeenCalled();
    run.mockReturnValue(new Promise(() => undefined));
    void chat.send("one");
    await chat.send("two");
    expect(run).toHaveBeenCalledOnce();
    expect(chat.outgoing?.text).toBe("one");
  });

  it("recognises a message whose answer was lost by its text", async () => {
    run.mockRejectedValue(unanswered());
    await chat.send("More");
    expect(chat.outgoing?.error?.code).toBe("offline");
    const mine = message("u2", { parent_id: "a1", number: 3, revision: 2, parts: [text("More")] });
    rows([mine], { revision: 2, reset: false });
    expect(chat.outgoing).toBeNull();
  });

  it("after a reload offers what wasn't confirmed, unless it arrived", async () => {
    run.mockReturnValue(new Promise(() => undefined));
    void chat.send("More");
    const key = chat.outgoing?.clientKey;
    chat = new ChatStore("c1", acts, drafts, owner);
    expect(chat.outgoing).toMatchObject({ text: "More", error: { code: "unconfirmed" } });
    rows([question, answer]);
    expect(chat.outgoing?.clientKey).toBe(key);
    const mine = message("u2", { parent_id: "a1", number: 3, parts: [text("More")] });
    rows([question, answer, mine]);
    expect(chat.outgoing).toBeNull();
    expect(drafts.read("c1").sending).toBeNull();
    await Promise.resolve();
  });
});

describe("an answer being written", () => {
  beforeEach(() => {
    rows([question, writing], { turns: [turn("t1")] });
    chat.takeStream(stream("1:0", { deltas: [["content", "so"]] }));
  });

  it("is the stream, then what is stored", () => {
    expect(chat.isRunning).toBe(true);
    expect(chat.path.at(-1)).toMatchObject({ parts: [text("so")], live: { phase: "generating" } });
    const stored = { ...answer, revision: 2, parts: [text("so it ends")] };
    const ended = turn("t1", { state: "finished", revision: 2 });
    rows([stored], { turns: [ended], revision: 2, reset: false, leaf: "a1" });
    expect(chat.isRunning).toBe(false);
    expect(chat.path.at(-1)?.parts).toEqual([text("so it ends")]);
    chat.takeStream(stream("1:9", { deltas: [["content", " late"]] }));
    expect(chat.opening?.cursors).toEqual({});
  });

  it("stops at once to the eye, and goes on when that failed", async () => {
    run.mockReturnValue(new Promise(() => undefined));
    void chat.stop();
    expect(chat.path.at(-1)?.live?.phase).toBe("stopping");
    await chat.stop();
    expect(run).toHaveBeenCalledOnce();

    chat = new ChatStore("c1", acts, drafts, owner);
    rows([question, writing], { turns: [turn("t1")] });
    run.mockRejectedValue(BUSY);
    await chat.stop();
    expect(chat.path.at(-1)?.live?.phase).toBe("prefill");
    expect(chat.error?.code).toBe("busy");
    chat.dismissError();
    expect(chat.error).toBeNull();
  });

  it("can't be stopped once it has ended", async () => {
    rows([answer], {
      turns: [turn("t1", { state: "finished", revision: 2 })],
      revision: 2,
      reset: false,
    });
    await chat.stop();
    expect(run).not.toHaveBeenCalled();
  });
});

describe("branches", () => {
  const other = message("a2", { parent_id: "u1", number: 3, role: "assistant" });
  const tail = message("u3", { parent_id: "a2", number: 4 });

  beforeEach(() => {
    rows([question, answer, other, tail], { leaf: "a1" });
  });

  it("change at once, to their newest end", async () => {
    run.mockReturnValue(new Promise(() => undefined));
    void chat.select("a2");
    expect(path()).toEqual(["u1", "a2", "u3"]);
    expect(run).toHaveBeenCalledWith("leaf.select", { conversation_id: "c1", message_id: "a2" });
    await Promise.resolve();
  });

  it("then are what the conversation says", async () => {
    run.mockResolvedValue({ ...NOTHING, revision: 2 });
    await chat.select("a2");
    expect(path()).toEqual(["u1", "a2", "u3"]);
    rows([], { revision: 2, leaf: "u3", reset: false });
    rows([], { revision: 3, leaf: "a1", reset: false }); // another tab
    expect(path()).toEqual(["u1", "a1"]);
  });

  it("go back when that is refused", async () => {
    run.mockRejectedValue(BUSY);
    await chat.select("a2");
    expect(path()).toEqual(["u1", "a1"]);
    expect(chat.error?.code).toBe("busy");
  });

  it("are a reader's own choice", async () => {
    const of = conversation("c1", { revision: 2, current_leaf_id: "a1", can_write: false });
    chat.take(state(of, { reset: false }));
    await chat.select("a2");
    expect(run).not.toHaveBeenCalled();
    expect(path()).toEqual(["u1", "a2", "u3"]);
    expect(chat.canWrite).toBe(false);
  });
});

it("every act has its own name and its arguments", async () => {
  rows([question, answer]);
  await chat.retry("t1");
  await chat.regenerate("a1", "small");
  await chat.edit("u1", "new text", true);
  await chat.remove("u1");
  const key = expect.any(String) as string;
  expect(run.mock.calls).toEqual([
    ["turn.retry", { turn_id: "t1", model_name: null, client_key: key }],
    ["message.regenerate", { message_id: "a1", model_name: "small", client_key: key }],
    [
      "message.edit",
      {
        message_id: "u1",
        parts: [{ type: "text", text: "new text" }],
        in_place: true,
        model_name: null,
        client_key: key,
      },
    ],
    ["message.delete", { message_id: "u1" }],
  ]);
  const keys = run.mock.calls.map(([, args]) => args["client_key"]).filter(Boolean);
  expect(new Set(keys).size).toBe(3);
});

it("drafts are kept by conversation", () => {
  vi.useFakeTimers();
  chat.draft = "half a thought";
  vi.runAllTimers();
  vi.useRealTimers();
  expect(new ChatStore("c1", acts, drafts, owner).draft).toBe("half a thought");
  expect(new ChatStore("c2", acts, drafts, owner).draft).toBe("");
});
