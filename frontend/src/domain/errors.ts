/** Errors as the server says them, and those that happen on the way to it. Pure. */
import type { ErrorOut } from "../types/api";

/** What a refused or failed call throws; it is an `ErrorOut`. */
export class CallError extends Error implements ErrorOut {
  readonly code: string;
  readonly param: string | null;
  readonly retryable: boolean;
  readonly retry_after_s: number | null;
  /** No answer came: it may have been done all the same. */
  readonly isUnanswered: boolean;

  constructor(error: ErrorOut, isUnanswered = false) {
    super(error.message);
    this.name = "CallError";
    this.code = error.code;
    this.param = error.param;
    this.retryable = error.retryable;
    this.retry_after_s = error.retry_after_s;
    this.isUnanswered = isUnanswered;
  }
}

function make(code: string, message: string, retryable: boolean): ErrorOut {
  return { code, message, param: null, retryable, retry_after_s: null };
}

/** The codes "offline" and "late" are the app's own; it says them in its own words. */
export function unanswered(): CallError {
  return new CallError(make("offline", "The server can't be reached.", true), true);
}

export function late(): CallError {
  return new CallError(make("late", "The server didn't answer in time.", true), true);
}

/** The error in the body of a refused request; one made from the status if there is none. */
export function errorFrom(status: number, body: unknown): CallError {
  const error = isRecord(body) ? body["error"] : undefined;
  if (isRecord(error) && typeof error["message"] === "string") {
    const { code, param, retryable, retry_after_s: wait } = error;
    return new CallError({
      code: typeof code === "string" ? code : "failed",
      message: error["message"],
      param: typeof param === "string" ? param : null,
      retryable: retryable === true,
      retry_after_s: typeof wait === "number" ? wait : null,
    });
  }
  if (status >= 502 && status <= 504) {
    return unanswered(); // a proxy whose server is away
  }
  return new CallError(make(status === 401 ? "signed_out" : "failed", `HTTP ${status}`, false));
}

/** Any thrown value as what is shown. */
export function errorOf(thrown: unknown): ErrorOut {
  if (thrown instanceof CallError) {
    const { code, message, param, retryable, retry_after_s } = thrown;
    return { code, message, param, retryable, retry_after_s };
  }
  return make("failed", thrown instanceof Error ? thrown.message : String(thrown), false);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
