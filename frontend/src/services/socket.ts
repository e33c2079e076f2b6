/** One WebSocket from its opening to its end: hello, acks, pings. Tried again by `live`. */
import { frameFrom, type ClientFrame } from "../types/frames";
import type { LinkOwner } from "./link";

const PATH = "/api/app/socket";
export const READY_MS = 10_000; // from the first try to the first frame
export const PING_MS = 15_000;
export const DEAD_MS = 10_000; // without any frame after a ping
export const ACK_FRAMES = 32;
export const ACK_MS = 250;
const LOST = 1006;

export class Socket {
  isReady = false;

  readonly #owner: LinkOwner;
  readonly #socket: WebSocket;
  #n = 0;
  #numUnacked = 0;
  #ackTimer: Timer;
  #pingTimer: Timer;
  #deadTimer: Timer;
  #isOver = false;

  constructor(owner: LinkOwner) {
    this.#owner = owner;
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.#socket = new WebSocket(`${scheme}//${location.host}${PATH}`);
    this.#deadTimer = setTimeout(() => this.#end(LOST), READY_MS);
    this.#socket.onopen = () => this.#greet();
    this.#socket.onmessage = (event: MessageEvent) => this.#take(event.data);
    this.#socket.onclose = (event: CloseEvent) => this.#end(event.code);
  }

  send(frame: ClientFrame): void {
    if (!this.#isOver && this.#socket.readyState === WebSocket.OPEN) {
      this.#socket.send(JSON.stringify(frame));
    }
  }

  /** Is anybody there? Ends the connection if not. */
  poke(): void {
    if (this.isReady && !this.#isOver) {
      clearTimeout(this.#pingTimer);
      this.#ping();
    }
  }

  /** Leave; the owner isn't told. */
  close(): void {
    this.#isOver = true;
    this.#clear();
    this.#socket.onopen = this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket.close();
  }

  #greet(): void {
    this.#owner.opened();
    this.send(this.#owner.hello());
    for (const open of this.#owner.opens()) {
      this.send(open);
    }
  }

  #take(data: unknown): void {
    const frame = frameFrom(data);
    clearTimeout(this.#deadTimer);
    this.#deadTimer = undefined;
    if (!this.isReady) {
      this.isReady = true;
      this.#pingTimer = setTimeout(() => this.#ping(), PING_MS);
      this.#owner.ready();
    }
    if (frame === null) {
      return;
    }
    this.#n = Math.max(this.#n, frame.n);
    this.#owner.take(frame);
    this.#ackSoon();
  }

  #ackSoon(): void {
    this.#numUnacked += 1;
    if (this.#numUnacked >= ACK_FRAMES) {
      this.#ack();
    } else {
      this.#ackTimer ??= setTimeout(() => this.#ack(), ACK_MS);
    }
  }

  #ack(): void {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    this.#numUnacked = 0;
    this.send({ type: "ack", n: this.#n });
  }

  #ping(): void {
    this.send({ type: "ping" });
    this.#deadTimer ??= setTimeout(() => this.#end(LOST), DEAD_MS);
    this.#pingTimer = setTimeout(() => this.#ping(), PING_MS);
  }

  #end(code: number): void {
    if (!this.#isOver) {
      this.close();
      this.#owner.closed(code);
    }
  }

  #clear(): void {
    clearTimeout(this.#ackTimer);
    clearTimeout(this.#pingTimer);
    clearTimeout(this.#deadTimer);
  }
}

type Timer = ReturnType<typeof setTimeout> | undefined;
