import { model } from "../domain/samples";
import type { FakeApp } from "./fake.svelte";
import { conversations, live, LONG, me, part, shown, turn } from "./fixtures";

const QUESTION = shown("m1", "user", "How do I get the newest order of each customer in SQL?");
const START = LONG.slice(0, 560);

function answer(
  app: FakeApp,
  text: string,
  ...rest: Parameters<typeof shown> extends [unknown, unknown, unknown, ...infer R] ? R : never
): void {
  app.chat.path = [QUESTION, shown("m2", "assistant", text, ...rest)];
}

function running(
  app: FakeApp,
  text: string,
  changes: Parameters<typeof live>[0],
  facts: Parameters<typeof shown>[4] = {},
): void {
  answer(app, text, { state: "streaming", live: live(changes) }, facts);
  app.chat.isRunning = true;
}

/** A model in each state. */
function manyModels(app: FakeApp): void {
  const [first, second] = app.account.models;
  app.account.me = {
    ...app.account.me,
    models: [
      ...(first ? [first] : []),
      ...(second ? [second] : []),
      model("mistral-small-24b", {
        title: "Mistral Small 24B",
        quantization: "Q4_K_M",
        state: "loading",
        reason: "model mistral-small-24b is loading",
        load_progress: 0.42,
        capabilities: ["tools", "reasoning"],
        tags: ["slow"],
      }),
      model("llama-3.3-70b", {
        state: "unloaded",
        quantization: "IQ4_XS",
        reason:
          "model llama-3.3-70b waits for memory: qwen3-8b-instruct is answering 2 requests, another model is pinned",
        capabilities: ["tools"],
      }),
      model("voxtral-mini", {
        state: "draining",
        reason: "model voxtral-mini ends and is loaded again then",
      }),
      model("phi-4", { state: "stopped", reason: "model phi-4 is not loaded" }),
      model("broken", { state: "failed", reason: "no such file", max_context: 0 }),
    ],
  };
}

/** What may be on the screen, by name; each starts from an open chat in a filled list. */
export const SCENES: Record<string, (app: FakeApp) => void> = {
  empty: (app) => {
    app.open(null);
    app.account.me = me({ has_only_starter_model: true });
  },
  first: (app) => {
    app.open(null);
    app.conversations.rows = [];
  },
  short: (app) => {
    app.chat.path = [
      QUESTION,
      shown("m2", "assistant", "With a window function.\n\nShall I show you the query?", {
        siblings: ["m2", "m3", "m4"],
        index: 1,
      }),
    ];
  },
  long: (app) => {
    app.chat.path = [
      QUESTION,
      shown("m2", "assistant", LONG),
      shown("m3", "user", "And if two orders have the same time?\nIs it stable?", {
        siblings: ["m3", "m5"],
      }),
      shown("m4", "assistant", "The `id` decides then, so it is stable.", {
        parts: [
          part("The order has to be total…", "reasoning"),
          part("The `id` decides then, so it is stable."),
        ],
      }),
    ];
  },
  streaming: (app) => running(app, START, {}),
  queued: (app) =>
    running(app, "", {
      phase: "queued",
      place: { ahead: 2, waiting: 5, reason: "model qwen3-8b-instruct is loading" },
    }),
  loading: (app) => {
    manyModels(app);
    running(
      app,
      "",
      {
        phase: "queued",
        place: { ahead: 0, waiting: 1, reason: "model mistral-small-24b is loading" },
      },
      { model_name: "mistral-small-24b" },
    );
    app.chat.modelName = "mistral-small-24b";
  },
  models: (app) => {
    manyModels(app);
    answer(app, START);
  },
  prefill: (app) =>
    running(app, "", { phase: "prefill", prefill: { done: 5200, total: 11000, cached: 900 } }),
  thinking: (app) => running(app, "", {}),
  stopping: (app) => running(app, START, { phase: "stopping" }),
  stopped: (app) => answer(app, START, { state: "stopped", turn: turn() }),
  failed: (app) =>
    answer(
      app,
      START,
      { state: "failed", turn: turn() },
      {
        error_code: "engine_crashed",
        error_message: "The engine ended while it was writing; a new one has been started.",
      },
    ),
  sending: (app) => {
    app.chat.outgoing = { clientKey: "k", text: "Is it stable?", error: null };
    answer(app, "Yes.");
  },
  unsent: (app) => {
    answer(app, "Yes.");
    const error = {
      code: "busy",
      message: "Too many requests are waiting.",
      param: null,
      retry_after_s: 3,
      retryable: true,
    };
    app.chat.outgoing = { clientKey: "k", text: "Is it stable?", error };
  },
  offline: (app) => {
    running(app, START, {});
    app.connection = "offline";
    app.retryAt = Date.now() + 6_000;
  },
  readonly: (app) => {
    answer(app, "Yes.");
    app.chat.canWrite = false;
  },
  absent: (app) => {
    app.chat.isAbsent = true;
  },
  /** Each message is taller than the window and than it is guessed to be. */
  tall: (app) => {
    const text = Array.from({ length: 80 }, (_, index) => `- ${String(index)}`).join("\n\n");
    app.chat.path = [
      shown("m1", "user", text),
      shown("m2", "assistant", text),
      shown("m3", "user", text),
      shown("m4", "assistant", text),
    ];
  },
  huge: (app) => {
    app.conversations.rows = conversations(400);
    app.chat.path = Array.from({ length: 2000 }, (_, index) =>
      index % 2 === 0
        ? shown(
            `m${String(index)}`,
            "user",
            `Question ${String(index)}: what comes after ${String(index)}?`,
          )
        : shown(
            `m${String(index)}`,
            "assistant",
            `After it comes **${String(index)}**.\n\n${"It is a number. ".repeat(index % 17)}`,
          ),
    );
  },
};
