/** What the app does to conversations: over the live connection when it is there, else by REST.

    A lost answer is no refusal: the act is repeated, with the same client key, until its deadline. */
import { waitMs } from "../domain/backoff";
import { CallError, late } from "../domain/errors";
import type {
  ActResult,
  ConversationRef,
  ConversationRename,
  LeafSelect,
  MessageEdit,
  MessageRef,
  MessageRegenerate,
  TurnRef,
  TurnRetry,
  TurnStart,
} from "../types/api";
import type { Live } from "./live";
import type { Method, Rest } from "./rest";

export const ACT_MS = 20_000;
export const MAX_SOCKET_ACT_BYTES = 256 * 1024;

export interface ActArgs {
  "conversation.rename": ConversationRename;
  "conversation.delete": ConversationRef;
  "conversation.restore": ConversationRef;
  "leaf.select": LeafSelect;
  "turn.start": TurnStart;
  "turn.stop": TurnRef;
  "turn.answer_now": TurnRef;
  "turn.retry": TurnRetry;
  "message.regenerate": MessageRegenerate;
  "message.edit": MessageEdit;
  "message.delete": MessageRef;
}
export type ActName = keyof ActArgs;

/** Done already, when the first try's answer was lost. */
const REMOVALS = new Set<ActName>([
  "conversation.delete",
  "conversation.restore",
  "message.delete",
]);

type Wire = Record<string, unknown>;
type Route = readonly [Method, (id: string) => string, string | null];

/** Method, path, and the argument that stands in the path. */
const ROUTES: Record<ActName, Route> = {
  "conversation.rename": ["PATCH", (id) => `conversations/${id}`, "conversation_id"],
  "conversation.delete": ["DELETE", (id) => `conversations/${id}`, "conversation_id"],
  "conversation.restore": ["POST", (id) => `conversations/${id}/restore`, "conversation_id"],
  "leaf.select": ["PUT", (id) => `conversations/${id}/leaf`, "conversation_id"],
  "turn.start": ["POST", () => "turns", null],
  "turn.stop": ["POST", (id) => `turns/${id}/stop`, "turn_id"],
  "turn.answer_now": ["POST", (id) => `turns/${id}/answer-now`, "turn_id"],
  "turn.retry": ["POST", (id) => `turns/${id}/retry`, "turn_id"],
  "message.regenerate": ["POST", (id) => `messages/${id}/regenerate`, "message_id"],
  "message.edit": ["POST", (id) => `messages/${id}/edit`, "message_id"],
  "message.delete": ["DELETE", (id) => `messages/${id}`, "message_id"],
};

export class Acts {
  readonly #live: Pick<Live, "canAct" | "act" | "readyOr">;
  readonly #rest: Rest;

  constructor(live: Pick<Live, "canAct" | "act" | "readyOr">, rest: Rest) {
    this.#live = live;
    this.#rest = rest;
  }

  /** Throws a `CallError`: refused, or not confirmed within `ACT_MS`. */
  async run<N extends ActName>(name: N, args: ActArgs[N]): Promise<ActResult> {
    const endAt = Date.now() + ACT_MS;
    const wire = args as unknown as Wire;
    for (let numTries = 1; ; numTries += 1) {
      try {
        return await this.#once(name, wire, endAt);
      } catch (error) {
        if (!(error instanceof CallError) || !error.isUnanswered) {
          if (numTries > 1 && REMOVALS.has(name) && isNotFound(error)) {
            return NOTHING;
          }
          throw error;
        }
        const wait = waitMs(numTries, Math.random());
        if (Date.now() + wait >= endAt) {
          throw error;
        }
        await this.#live.readyOr(wait);
      }
    }
  }

  #once(name: ActName, args: Wire, endAt: number): Promise<ActResult> {
    const left = Math.max(1, endAt - Date.now());
    if (this.#live.canAct && isSmall(args)) {
      return within(left, this.#live.act(name, args));
    }
    const [method, path, idName] = ROUTES[name];
    const body = Object.fromEntries(Object.entries(args).filter(([key]) => key !== idName));
    const id = idName === null ? "" : encodeURIComponent(String(args[idName]));
    const hasBody = Object.keys(body).length > 0;
    return this.#rest.call<ActResult>(method, path(id), hasBody ? body : undefined, left);
  }
}

const NOTHING: ActResult = {
  conversation_id: null,
  revision: null,
  message_id: null,
  turn_id: null,
  answer_id: null,
  was_stopped: null,
  was_told: null,
};

function isNotFound(error: unknown): boolean {
  return error instanceof CallError && error.code === "not_found";
}

function isSmall(args: Wire): boolean {
  const text = JSON.stringify(args);
  return (
    text.length < MAX_SOCKET_ACT_BYTES &&
    new TextEncoder().encode(text).length < MAX_SOCKET_ACT_BYTES
  );
}

async function within(ms: number, answer: Promise<ActResult>): Promise<ActResult> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms);
  });
  try {
    return await Promise.race([answer, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
