/** One stream of server-sent events: the same frames where WebSockets don't get through. */
import { frameFrom } from "../types/frames";
import type { LinkOwner } from "./link";
import { READY_MS } from "./socket";

const PATH = "/api/app/live";
const LOST = 1006;
/** The address has to stay short enough for every proxy on the way. */
const MAX_CURSORS = 16;

export class Events {
  isReady = false;

  readonly #owner: LinkOwner;
  readonly #source: EventSource;
  readonly #timer: ReturnType<typeof setTimeout>;
  #isOver = false;

  constructor(owner: LinkOwner) {
    this.#owner = owner;
    owner.opened();
    this.#source = new EventSource(addressFor(owner));
    this.#timer = setTimeout(() => this.#end(), READY_MS);
    this.#source.onmessage = (event: MessageEvent) => this.#take(event.data);
    // It would try again by itself, with an address that is out of date.
    this.#source.onerror = () => this.#end();
  }

  close(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#source.onmessage = this.#source.onerror = null;
    this.#source.close();
  }

  #take(data: unknown): void {
    clearTimeout(this.#timer);
    const frame = frameFrom(data);
    if (!this.isReady && frame?.type === "feed") {
      this.isReady = true;
      this.#owner.ready();
    }
    if (frame !== null) {
      this.#owner.take(frame);
    }
  }

  #end(): void {
    if (!this.#isOver) {
      this.close();
      this.#owner.closed(LOST);
    }
  }
}

function addressFor(owner: LinkOwner): string {
  const query = new URLSearchParams();
  const { feed } = owner.hello();
  if (feed !== null) {
    query.append("feed", String(feed));
  }
  const opens = owner.opens();
  for (const { conversation_id: id, revision } of opens) {
    query.append("open", `${id}@${revision ?? "-"}`);
  }
  const cursors = opens.flatMap((open) => Object.entries(open.cursors)).slice(-MAX_CURSORS);
  for (const [generationId, cursor] of cursors) {
    query.append("cursor", `${generationId}@${cursor}`);
  }
  return `${PATH}?${query.toString()}`;
}
