/** The live connection of a tab, whatever carries it, kept up for as long as the tab is there.

    A WebSocket; when it couldn't be opened several times, server-sent events beside it, while the
    WebSocket is tried now and then. */
import { waitMs } from "../domain/backoff";
import { CallError, unanswered } from "../domain/errors";
import { newKey } from "../domain/keys";
import type { ActResult, ErrorOut, Open } from "../types/api";
import type { ServerFrame } from "../types/frames";
import type { ConnectionState } from "../types/stores";
import { Events } from "./events";
import type { LinkOwner } from "./link";
import { Socket } from "./socket";

export const NUM_TRIES_BEFORE_FALLBACK = 3;
export const TRY_SOCKET_AGAIN_MS = 60_000; // while the fallback works
export const STABLE_MS = 10_000; // a connection that lasted: the next wait is the shortest
const SHORT_WAIT_MS = 1_000; // not worth to be called offline
const RESTART_SPREAD_MS = 300;
const TOO_MANY_WAIT_MS = 5_000;

const RESTART = 1012;
const MISUNDERSTOOD = 4400;
const SIGNED_OUT = 4401;
const TOO_MANY = 4429;

export interface LiveClient extends Pick<LinkOwner, "hello" | "opens" | "take"> {
  /** A connection ended; what was half received won't be completed. */
  interrupted(): void;
  changed(state: ConnectionState, retryAt: number | null): void;
  /** The server can't read what this page sends: it is of another version. */
  misunderstood(): void;
  /** Resolves when it is certain that somebody is signed in, or nobody can be asked. */
  checkSignedIn(): Promise<void>;
}

interface Pending {
  resolve(result: ActResult): void;
  reject(error: CallError): void;
}

/** Something that is tried again after it failed. */
interface Try {
  link: Socket | Events | null;
  numFailures: number;
  timer: ReturnType<typeof setTimeout> | undefined;
  retryAt: number | null;
}

export class Live {
  readonly #client: LiveClient;
  readonly #socket: Try = newTry();
  readonly #events: Try = newTry();
  readonly #acts = new Map<string, Pending>();
  readonly #readyWaiters = new Set<() => void>();
  #numUnopened = 0;
  #hasFallback = false;
  /** Since the last try that was worth to be called offline, until one succeeds. */
  #isOffline = false;
  #isStopped = true;

  constructor(client: LiveClient) {
    this.#client = client;
  }

  start(): void {
    this.#isStopped = false;
    window.addEventListener("online", this.#wake);
    document.addEventListener("visibilitychange", this.#wake);
    this.#connect();
  }

  stop(): void {
    this.#isStopped = true;
    window.removeEventListener("online", this.#wake);
    document.removeEventListener("visibilitychange", this.#wake);
    this.#drop(this.#socket);
    this.#drop(this.#events);
    this.#failActs();
  }

  /** Acts can go over the connection. */
  get canAct(): boolean {
    return this.#socket.link?.isReady === true;
  }

  /** Follow a conversation; what is followed is asked for again after a reconnect. */
  open(frame: Open): void {
    if (this.#socket.link instanceof Socket) {
      this.#socket.link.send(frame);
    }
    this.#restartFallback();
  }

  close(conversationId: string): void {
    if (this.#socket.link instanceof Socket) {
      this.#socket.link.send({ type: "close", conversation_id: conversationId });
    }
  }

  /** Rejects with `isUnanswered` when the connection ends before the reply. */
  act(name: string, args: Record<string, unknown>): Promise<ActResult> {
    const { link } = this.#socket;
    if (!(link instanceof Socket) || !link.isReady) {
      return Promise.reject(unanswered());
    }
    const ref = newKey();
    return new Promise((resolve, reject) => {
      this.#acts.set(ref, { resolve, reject });
      link.send({ type: "act", ref, name, args });
    });
  }

  /** Resolves when a connection is made, or after `ms`. */
  readyOr(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#readyWaiters.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#readyWaiters.add(done);
    });
  }

  reconnectNow(): void {
    if (this.#isStopped) {
      return;
    }
    if (this.#socket.link instanceof Socket && this.#socket.link.isReady) {
      this.#socket.link.poke();
      return;
    }
    this.#socket.numFailures = 0;
    this.#drop(this.#socket);
    this.#connect();
    if (this.#hasFallback && this.#events.link === null) {
      this.#startFallback();
    }
  }

  readonly #wake = () => {
    if (document.visibilityState === "visible") {
      this.reconnectNow();
    }
  };

  // --- the WebSocket

  #connect(): void {
    clearTimeout(this.#socket.timer);
    this.#socket.retryAt = null;
    let readyAt: number | null = null;
    const owner: LinkOwner = {
      hello: () => this.#client.hello(),
      opens: () => this.#client.opens(),
      opened: () => {
        // Before it says how far this tab is: two connections would each bring what follows.
        this.#drop(this.#events);
        this.#client.interrupted();
      },
      ready: () => {
        readyAt = Date.now();
        this.#numUnopened = 0;
        this.#hasFallback = false;
        this.#isReady();
      },
      take: (frame) => this.#take(frame),
      closed: (code) => void this.#lost(code, readyAt),
    };
    try {
      this.#socket.link = new Socket(owner);
      this.#report();
    } catch {
      void this.#lost(0, null); // refused by the browser, e.g. by a policy
    }
  }

  async #lost(code: number, readyAt: number | null): Promise<void> {
    this.#socket.link = null;
    this.#failActs();
    if (readyAt !== null || !this.#hasFallback) {
      this.#client.interrupted();
    }
    const hasLasted = readyAt !== null && Date.now() - readyAt >= STABLE_MS;
    this.#socket.numFailures = hasLasted ? 1 : this.#socket.numFailures + 1;
    this.#numUnopened = readyAt === null ? this.#numUnopened + 1 : 0;
    this.#report();
    if (code === MISUNDERSTOOD) {
      this.#client.misunderstood();
    } else if (code === SIGNED_OUT) {
      await this.#client.checkSignedIn();
    }
    if (this.#isStopped || this.#socket.link !== null) {
      return;
    }
    this.#hasFallback ||= this.#numUnopened >= NUM_TRIES_BEFORE_FALLBACK;
    if (this.#hasFallback && this.#events.link === null && this.#events.retryAt === null) {
      this.#startFallback();
    }
    this.#again(this.#socket, this.#waitAfter(code, hasLasted), () => this.#connect());
  }

  #waitAfter(code: number, hasLasted: boolean): number {
    const wait = waitMs(this.#socket.numFailures, Math.random());
    if (code === RESTART && hasLasted) {
      return Math.random() * RESTART_SPREAD_MS;
    }
    if (this.#events.link?.isReady === true) {
      return TRY_SOCKET_AGAIN_MS;
    }
    return code === TOO_MANY ? Math.max(wait, TOO_MANY_WAIT_MS) : wait;
  }

  // --- the fallback

  #startFallback(): void {
    clearTimeout(this.#events.timer);
    this.#events.retryAt = null;
    const owner: LinkOwner = {
      hello: () => this.#client.hello(),
      opens: () => this.#client.opens(),
      opened: () => undefined,
      ready: () => {
        this.#events.numFailures = 0;
        this.#isReady();
        if (this.#socket.link === null) {
          this.#again(this.#socket, TRY_SOCKET_AGAIN_MS, () => this.#connect());
        }
      },
      take: (frame) => this.#take(frame),
      closed: () => void this.#lostFallback(),
    };
    this.#events.link = new Events(owner);
    this.#report();
  }

  async #lostFallback(): Promise<void> {
    const wasReady = this.#events.link?.isReady === true;
    this.#events.link = null;
    this.#events.numFailures += 1;
    this.#client.interrupted();
    this.#report();
    if (!wasReady) {
      await this.#client.checkSignedIn(); // its refusals can't be read
    }
    if (!this.#isStopped && this.#hasFallback && this.#events.link === null) {
      const wait = waitMs(this.#events.numFailures, Math.random());
      this.#again(this.#events, wait, () => this.#startFallback());
    }
  }

  /** Its address says what is followed, so a change needs another one. */
  #restartFallback(): void {
    if (this.#events.link !== null) {
      this.#drop(this.#events);
      this.#client.interrupted();
      this.#startFallback();
    }
  }

  // --- both

  #isReady(): void {
    this.#report();
    for (const done of [...this.#readyWaiters]) {
      done();
    }
  }

  #take(frame: ServerFrame): void {
    if (frame.type === "reply") {
      const pending = this.#acts.get(frame.ref);
      this.#acts.delete(frame.ref);
      if (frame.error !== null) {
        pending?.reject(new CallError(frame.error as ErrorOut));
      } else if (frame.result !== null) {
        pending?.resolve(frame.result);
      }
    } else {
      this.#client.take(frame);
    }
  }

  #failActs(): void {
    const pending = [...this.#acts.values()];
    this.#acts.clear();
    for (const { reject } of pending) {
      reject(unanswered());
    }
  }

  #again(what: Try, wait: number, begin: () => void): void {
    clearTimeout(what.timer);
    what.retryAt = Date.now() + wait;
    what.timer = setTimeout(begin, wait);
    this.#report();
  }

  #drop(what: Try): void {
    clearTimeout(what.timer);
    what.link?.close();
    what.link = null;
    what.retryAt = null;
  }

  #report(): void {
    if (this.#isStopped) {
      return;
    }
    if (this.#socket.link?.isReady === true) {
      this.#isOffline = false;
      this.#client.changed("live", null);
    } else if (this.#events.link?.isReady === true) {
      this.#isOffline = false;
      this.#client.changed("fallback", null);
    } else {
      const tries = [this.#socket.retryAt, this.#events.retryAt].filter((at) => at !== null);
      const isTrying = this.#socket.link !== null || this.#events.link !== null;
      const retryAt = isTrying || tries.length === 0 ? null : Math.min(...tries);
      const isLong = retryAt !== null && retryAt - Date.now() > SHORT_WAIT_MS;
      this.#isOffline ||= isLong;
      this.#client.changed(this.#isOffline ? "offline" : "connecting", isLong ? retryAt : null);
    }
  }
}

function newTry(): Try {
  return { link: null, numFailures: 0, timer: undefined, retryAt: null };
}
