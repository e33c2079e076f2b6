/** What the server's state is, as far as the page knows. */
export type ServerState = "checking" | "ready" | "starting" | "unreachable";

/** An answer of GET /health; null when there was none. */
export interface HealthAnswer {
  status: number;
  body: unknown;
}

export interface Health {
  state: ServerState;
  /** The server's own words, when it gave any. */
  reason: string;
}

const FIRST_WAIT_MS = 1_000;
const READY_WAIT_MS = 10_000;
const LONGEST_WAIT_MS = 30_000;

export function healthOf(answer: HealthAnswer | null): Health {
  if (answer === null) {
    return { state: "unreachable", reason: "" };
  }
  if (answer.status === 200) {
    return { state: "ready", reason: "" };
  }
  if (answer.status === 503) {
    return { state: "starting", reason: reasonOf(answer.body) };
  }
  return { state: "unreachable", reason: "" };
}

/**
 * How long to wait before asking again: steadily while all is well, longer after each of
 * `failures` answers in a row that were not "ready".
 */
export function waitMs(state: ServerState, failures: number): number {
  if (state === "ready") {
    return READY_WAIT_MS;
  }
  return Math.min(FIRST_WAIT_MS * 1.5 ** Math.max(0, failures - 1), LONGEST_WAIT_MS);
}

function reasonOf(body: unknown): string {
  const error = field(body, "error");
  for (const value of [field(error, "reason"), field(error, "message")]) {
    if (typeof value === "string" && value !== "") {
      return value;
    }
  }
  return "";
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null
    ? (value as Record<string, unknown>)[name]
    : undefined;
}
