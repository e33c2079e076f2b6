/** How marked reads text here: no raw HTML, our fences, no strike-through by a single tilde. */
import { Tokenizer, type Tokens } from "marked";

import { fenceAt } from "./fences";

/** What may be the beginning of an address, and nothing else. */
const ADDRESS_RUN = /^[a-zA-Z0-9.#$%&'+/=?{|}-]+/;
/** No address is as long. */
const MAX_ADDRESS_CHARS = 320;

/** A fenced block; `isOpen`: its end hasn't come. */
export interface CodeToken extends Tokens.Code {
  isOpen?: boolean;
}

export class SafeTokenizer extends Tokenizer {
  readonly #isComplete: boolean;

  constructor(isComplete: boolean) {
    super();
    this.#isComplete = isComplete;
  }

  override fences(src: string): Tokens.Code | undefined {
    const fence = fenceAt(src, this.#isComplete);
    if (fence === null) {
      return undefined;
    }
    const token: CodeToken = {
      type: "code",
      raw: fence.raw,
      lang: fence.language,
      text: fence.code,
      isOpen: fence.isOpen,
    };
    return token;
  }

  /** Tags are text like any other, so a block of them is a paragraph. */
  override html(): undefined {
    return undefined;
  }

  /** A tag within text: shown as it stands, except for the line break that tables need. */
  override tag(src: string): Tokens.Tag | undefined {
    const raw = this.rules.inline.tag.exec(src)?.[0];
    if (raw === undefined) {
      return undefined;
    }
    const token = /^<br\s*\/?>$/i.test(raw)
      ? { type: "br", raw }
      : { type: "text", raw, text: raw, escaped: false };
    return token as unknown as Tokens.Tag;
  }

  /** Before an "@" marked takes one character at a time and looks for the "@" from each. */
  override inlineText(src: string): Tokens.Text | undefined {
    const numChars = (ADDRESS_RUN.exec(src)?.[0].length ?? 0) - MAX_ADDRESS_CHARS;
    if (numChars <= 0) {
      return super.inlineText(src);
    }
    const raw = src.slice(0, numChars);
    return { type: "text", raw, text: raw, escaped: false };
  }

  override del(src: string, maskedSrc: string, prevChar?: string): Tokens.Del | undefined {
    return src.startsWith("~~") ? super.del(src, maskedSrc, prevChar) : undefined;
  }
}
