/** How marked reads text here: no raw HTML, our fences, no strike-through by a single tilde. */
import { Tokenizer, type Tokens } from "marked";

import { fenceAt } from "./fences";

/** No address is as long. */
const MAX_ADDRESS_CHARS = 320;
/** What may stand before its "@", a part of it that has no other meaning, and backticks and tildes,
    which stay together. */
const ADDRESS = /^[a-zA-Z0-9.!#$%&'*+/=?_`{|}~-]{1,640}/;
const PLAIN = /^[a-zA-Z0-9.#$%&'+/=?{|}-]{1,320}/;
const MARKS = /^[`~]+/;

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
    const numMore = lengthOf(ADDRESS, src) - MAX_ADDRESS_CHARS;
    if (numMore <= 0) {
      return super.inlineText(src);
    }
    const num = Math.min(lengthOf(PLAIN, src), numMore) || lengthOf(MARKS, src) || 1;
    const raw = src.slice(0, num);
    return { type: "text", raw, text: raw, escaped: false };
  }

  /** Looking for an address, marked reads up to the "@" however far that is. */
  override url(src: string): Tokens.Link | undefined {
    const isTooLong = lengthOf(ADDRESS, src) > MAX_ADDRESS_CHARS && !/^www\./i.test(src);
    return isTooLong ? undefined : super.url(src);
  }

  override del(src: string, maskedSrc: string, prevChar?: string): Tokens.Del | undefined {
    return src.startsWith("~~") ? super.del(src, maskedSrc, prevChar) : undefined;
  }
}

function lengthOf(pattern: RegExp, text: string): number {
  return pattern.exec(text)?.[0].length ?? 0;
}
