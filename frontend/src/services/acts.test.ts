// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { CallError, unanswered } from "../domain/errors";
import type { ActResult, TurnStart } from "../types/api";
import { ACT_MS, Acts, MAX_SOCKET_ACT_BYTES } from "./acts";
import { stubBrowser, type FakeServer } from "./fakes";
import { Rest } from "./rest";

const DONE = { revision: 2 } as ActResult;
let server: FakeServer;
const live = {
  canAct: true,
  act: vi.fn<(name: string, args: Record<string, unknown>) => Promise<ActResult>>(),
  readyOr: vi.fn((ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))),
};
const acts = new Acts(live, new Rest(vi.fn()));

beforeEach(() => {
  vi.useFakeTimers();
  server = stubBrowser();
  server.answers = [{ status: 200, body: DONE }];
  live.canAct = true;
  live.act.mockReset().mockResolvedValue(DONE);
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const start = (text: string): TurnStart => ({
  conversation_id: null,
  parts: [{ type: "text", text }],
  parent_id: null,
  model_name: null,
  client_key: "k1",
});

describe("the way", () => {
  it("is the live connection when it is there", async () => {
    expect(await acts.run("turn.start", start("hi"))).toEqual(DONE);
    expect(live.act).toHaveBeenCalledWith("turn.start", start("hi"));
    expect(server.calls).toEqual([]);
  });

  it("is REST for what is too large for a frame, in bytes", async () => {
    await acts.run("turn.start", start("ä".repeat(MAX_SOCKET_ACT_BYTES / 2)));
    expect(live.act).not.toHaveBeenCalled();
    expect(server.calls).toHaveLength(1);
  });

  it.each([
    [
      "conversation.rename",
      { conversation_id: "c", title: "t" },
      "PATCH",
      "conversations/c",
      { title: "t" },
    ],
    ["conversation.delete", { conversation_id: "c" }, "DELETE", "conversations/c", undefined],
    [
      "conversation.restore",
      { conversation_id: "c" },
      "POST",
      "conversations/c/restore",
      undefined,
    ],
    [
      "leaf.select",
      { conversation_id: "c", message_id: "m" },
      "PUT",
      "conversations/c/leaf",
      { message_id: "m" },
    ],
    ["turn.start", start("x"), "POST", "turns", start("x")],
    ["turn.stop", { turn_id: "t" }, "POST", "turns/t/stop", undefined],
    ["turn.answer_now", { turn_id: "t" }, "POST", "turns/t/answer-now", undefined],
    [
      "turn.retry",
      { turn_id: "t", model_name: null, client_key: "k" },
      "POST",
      "turns/t/retry",
      { model_name: null, client_key: "k" },
    ],
    [
      "message.regenerate",
      { message_id: "m", model_name: "x", client_key: "k" },
      "POST",
      "messages/m/regenerate",
      { model_name: "x", client_key: "k" },
    ],
    ["message.delete", { message_id: "m/../x" }, "DELETE", "messages/m%2F..%2Fx", undefined],
  ] as const)("%s by REST", async (name, args, method, path, body) => {
    live.canAct = false;
    await acts.run(name, args as never);
    expect(server.calls).toMatchObject([{ method, path: `/api/app/${path}` }]);
    expect(server.calls[0]?.body).toEqual(body);
  });
});

describe("a lost answer", () => {
  it("is asked for again by the same name, on whatever way there is", async () => {
    live.act.mockRejectedValueOnce(unanswered());
    const result = acts.run("turn.start", start("hi"));
    live.canAct = false;
    await vi.runAllTimersAsync();
    expect(await result).toEqual(DONE);
    expect(server.calls[0]?.body).toMatchObject({ client_key: "k1" });
  });

  it("is given up at the deadline, and can be tried again by hand", async () => {
    live.canAct = false;
    server.answers = ["lost"];
    const before = Date.now();
    const result = acts.run("turn.start", start("hi")).catch((error: unknown) => error);
    await vi.runAllTimersAsync();
    expect(await result).toMatchObject({ code: "offline", retryable: true });
    expect(Date.now() - before).toBeLessThanOrEqual(ACT_MS);
    expect(server.calls.length).toBeGreaterThan(3);
  });

  it("that never comes ends at the deadline too", async () => {
    live.act.mockReturnValue(new Promise(() => undefined));
    const result = acts.run("turn.stop", { turn_id: "t" }).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(ACT_MS);
    expect(await result).toMatchObject({ code: "late" });
  });

  it("of a removal was the removal, if there is nothing to remove then", async () => {
    const absent = { code: "not_found", message: "", param: null, retryable: false };
    const refusal = new CallError({ ...absent, retry_after_s: null });
    live.act.mockRejectedValueOnce(unanswered()).mockRejectedValueOnce(refusal);
    const result = acts.run("conversation.delete", { conversation_id: "c" });
    await vi.runAllTimersAsync();
    expect(await result).toMatchObject({ revision: null });
    live.act.mockRejectedValueOnce(refusal);
    const first = acts.run("conversation.delete", { conversation_id: "c" });
    await expect(first).rejects.toMatchObject({ code: "not_found" });
  });
});

it("a refusal is a refusal at once", async () => {
  const busy = { code: "busy", message: "No.", param: null, retryable: true, retry_after_s: 1 };
  live.act.mockRejectedValue(new CallError(busy));
  await expect(acts.run("turn.stop", { turn_id: "t" })).rejects.toMatchObject({ code: "busy" });
  expect(live.act).toHaveBeenCalledOnce();
});
