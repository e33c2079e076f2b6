/** Doubles of what the browser connects with, for tests. */
import { vi } from "vitest";

import type { ClientFrame, ServerFrame } from "../types/frames";

export class FakeSocket {
  static readonly OPEN = 1;
  static all: FakeSocket[] = [];

  readyState = 0;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  readonly sent: ClientFrame[] = [];
  isClosedByClient = false;
  n = 0;

  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }

  static get last(): FakeSocket {
    const last = FakeSocket.all.at(-1);
    if (last === undefined) {
      throw new Error("no socket was made");
    }
    return last;
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as ClientFrame);
  }

  close(): void {
    this.readyState = 3;
    this.isClosedByClient = true;
  }

  /** The server takes the connection. */
  open(): void {
    this.readyState = FakeSocket.OPEN;
    this.onopen?.();
  }

  /** The server sends a frame with the next number. */
  say(frame: ServerFrame): void {
    this.n += 1;
    this.onmessage?.({ data: JSON.stringify({ ...frame, n: this.n }) });
  }

  /** The server, or the network, ends it. */
  end(code = 1006): void {
    this.readyState = 3;
    this.onclose?.({ code });
  }

  framesOf<T extends ClientFrame["type"]>(type: T): Extract<ClientFrame, { type: T }>[] {
    return this.sent.filter(
      (frame): frame is Extract<ClientFrame, { type: T }> => frame.type === type,
    );
  }
}

export class FakeEvents {
  static all: FakeEvents[] = [];

  onmessage: ((event: { data: unknown }) => void) | null = null;
  onerror: (() => void) | null = null;
  isClosed = false;

  constructor(readonly url: string) {
    FakeEvents.all.push(this);
  }

  static get last(): FakeEvents {
    const last = FakeEvents.all.at(-1);
    if (last === undefined) {
      throw new Error("no event source was made");
    }
    return last;
  }

  close(): void {
    this.isClosed = true;
  }

  say(frame: ServerFrame): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  get query(): URLSearchParams {
    return new URL(this.url, "http://localhost").searchParams;
  }
}

export interface FakeCall {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly headers: Record<string, string>;
}

/** Answers of the REST API, in order; the last one again and again. "lost": no answer comes. */
export class FakeServer {
  readonly calls: FakeCall[] = [];
  answers: ({ status: number; body?: unknown } | "lost" | "never")[] = ["lost"];

  readonly fetch = (path: string, init: RequestInit = {}): Promise<Response> => {
    const body: unknown = typeof init.body === "string" ? JSON.parse(init.body) : undefined;
    const headers = init.headers as Record<string, string>;
    this.calls.push({ method: init.method ?? "GET", path, body, headers });
    const answer = this.answers.length > 1 ? this.answers.shift() : this.answers[0];
    if (answer === "never") {
      return new Promise((_, reject) => {
        init.signal?.addEventListener("abort", () => reject(new Error("aborted")));
      });
    }
    if (answer === "lost" || answer === undefined) {
      return Promise.reject(new TypeError("failed to fetch"));
    }
    const text = answer.body === undefined ? null : JSON.stringify(answer.body);
    return Promise.resolve(new Response(text, { status: answer.status }));
  };
}

/** Put the doubles in the browser's place. */
export function stubBrowser(): FakeServer {
  FakeSocket.all = [];
  FakeEvents.all = [];
  const server = new FakeServer();
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("EventSource", FakeEvents);
  vi.stubGlobal("fetch", server.fetch);
  vi.spyOn(Math, "random").mockReturnValue(1);
  return server;
}
