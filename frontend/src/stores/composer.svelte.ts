import { CallError, errorOf } from "../domain/errors";
import { newKey } from "../domain/keys";
import type { Draft, Drafts, Sending } from "../services/drafts";
import type { ActResult, ErrorOut, MessageOut } from "../types/api";
import type { Outgoing } from "../types/stores";

const WRITE_MS = 300; // a draft is stored when typing pauses

/** After a reload it can't be known whether the message before it arrived. */
export const UNCONFIRMED: ErrorOut = {
  code: "unconfirmed",
  message: "The page was closed before the server confirmed this message.",
  param: null,
  retryable: true,
  retry_after_s: null,
};

interface OnItsWay extends Sending {
  readonly error: ErrorOut | null;
  /** Set when it was confirmed; it shows until its row is here. */
  readonly messageId: string | null;
  /** The conversation's revision that has it. */
  readonly revision: number | null;
}

export type Send = (text: string, clientKey: string) => Promise<ActResult>;

/** What is written and what was sent of one conversation. The stored draft goes when the server has
    confirmed the message, not before. */
export class Composer {
  #id: string | null;
  #text = $state("");
  #sent: OnItsWay | null = $state.raw(null);
  readonly #drafts: Drafts;
  #timer: ReturnType<typeof setTimeout> | undefined;

  readonly outgoing: Outgoing | null = $derived(
    this.#sent === null
      ? null
      : { clientKey: this.#sent.clientKey, text: this.#sent.text, error: this.#sent.error },
  );

  constructor(id: string | null, drafts: Drafts) {
    this.#id = id;
    this.#drafts = drafts;
    const { text, sending } = drafts.read(id);
    this.#text = text;
    this.#sent =
      sending === null ? null : { ...sending, error: UNCONFIRMED, messageId: null, revision: null };
  }

  get text(): string {
    return this.#text;
  }

  set text(text: string) {
    this.#text = text;
    this.#timer ??= setTimeout(() => this.#store(), WRITE_MS);
  }

  /** A message is neither confirmed nor refused. */
  get isSending(): boolean {
    return this.#sent !== null && this.#sent.error === null && this.#sent.messageId === null;
  }

  /** The conversation exists now. */
  moveTo(id: string): void {
    this.#drafts.write(this.#id, { text: "", sending: null });
    this.#id = id;
    this.#store();
  }

  /** Store now what waits for a pause. */
  flush(): void {
    if (this.#timer !== undefined) {
      this.#store(); // only then: another tab may have written since
    }
  }

  #store(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const sent = this.#sent;
    const isOpen = sent !== null && sent.messageId === null;
    const sending = isOpen
      ? { clientKey: sent.clientKey, text: sent.text, after: sent.after }
      : null;
    const draft: Draft = { text: this.#text, sending };
    this.#drafts.write(this.#id, draft);
  }

  /** False: another one is on its way, or there is nothing to send. `after`: the largest message
      number there is. */
  begin(text: string, after: number): boolean {
    if (this.#sent !== null || text.trim() === "") {
      return false;
    }
    this.#sent = { clientKey: newKey(), text, after, error: null, messageId: null, revision: null };
    this.#text = "";
    this.#store();
    return true;
  }

  /** The refused one once more, by the same name: it can't arrive twice. */
  beginAgain(): boolean {
    if (this.#sent === null || this.#sent.error === null) {
      return false;
    }
    this.#sent = { ...this.#sent, error: null };
    return true;
  }

  /** Send what was begun. Resolves with null when it was refused; the text stays. */
  async send(send: Send): Promise<ActResult | null> {
    const sent = this.#sent;
    if (sent === null) {
      return null;
    }
    try {
      const result = await send(sent.text, sent.clientKey);
      if (this.#sent?.clientKey === sent.clientKey) {
        this.#sent = { ...sent, messageId: result.message_id ?? "", revision: result.revision };
        this.#store();
      }
      return result;
    } catch (error) {
      if (this.#sent?.clientKey === sent.clientKey) {
        this.#sent = { ...sent, error: errorOf(error) };
      }
      if (!(error instanceof CallError)) {
        throw error;
      }
      return null;
    }
  }

  /** The refused text becomes the draft again, before what was written since. */
  takeBack(): void {
    if (this.#sent !== null && this.#sent.error !== null) {
      const { text } = this.#sent;
      this.#sent = null;
      this.#text = this.#text.trim() === "" ? text : `${text}\n\n${this.#text}`;
      this.#store();
    }
  }

  /** The rows as they are at `revision`: a message that is among them isn't on its way, nor one
      that must be and was deleted already. */
  arrived(messages: ReadonlyMap<string, MessageOut>, revision: number | null): void {
    const sent = this.#sent;
    if (sent === null) {
      return;
    }
    const isHere =
      sent.messageId !== null
        ? sent.messageId === "" ||
          messages.has(sent.messageId) ||
          (sent.revision !== null && sent.revision <= (revision ?? -1))
        : [...messages.values()].some((message) => isSame(message, sent));
    if (isHere) {
      this.#sent = null;
      this.#store();
    }
  }
}

/** Its answer was lost or is still to come, but here it is. */
function isSame(message: MessageOut, sent: Sending): boolean {
  return (
    message.role === "user" &&
    message.number > sent.after &&
    message.parts.length === 1 &&
    message.parts[0]?.text === sent.text
  );
}
