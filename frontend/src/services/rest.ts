/** Requests to /api/app/. Everything that fails throws a `CallError`. */
import { CallError, errorFrom, late, unanswered } from "../domain/errors";
import { csrfToken } from "./csrf";

const BASE = "/api/app/";
export const CALL_MS = 15_000;

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export class Rest {
  readonly #signedOut: () => void;

  /** `signedOut` is called for every 401. */
  constructor(signedOut: () => void) {
    this.#signedOut = signedOut;
  }

  get<T>(path: string): Promise<T> {
    return this.call<T>("GET", path);
  }

  /** The answer's body; undefined for 204. `deadlineMs`: from now. */
  async call<T>(method: Method, path: string, body?: unknown, deadlineMs = CALL_MS): Promise<T> {
    const signal = AbortSignal.timeout(deadlineMs);
    try {
      const response = await fetch(BASE + path, {
        method,
        signal,
        headers: headersFor(method, body),
        credentials: "same-origin",
        redirect: "error",
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (response.ok) {
        return (response.status === 204 ? undefined : await response.json()) as T;
      }
      const error = errorFrom(response.status, await response.json().catch(() => null));
      if (response.status === 401) {
        this.#signedOut();
      }
      throw error;
    } catch (error) {
      if (error instanceof CallError) {
        throw error;
      }
      throw signal.aborted ? late() : unanswered();
    }
  }
}

function headersFor(method: Method, body: unknown): Record<string, string> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (method !== "GET") {
    headers["X-CSRFToken"] = csrfToken();
  }
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
  }
  return headers;
}
