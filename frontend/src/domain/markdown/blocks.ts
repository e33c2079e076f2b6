/** A text as top-level blocks that keep their identity while the text grows. */
import type { Links, Token, Tokens } from "marked";

import { lexerFor, renderBlock } from "./render";
import type { CodeToken } from "./tokenizer";

/** A top-level block of a text. `key` stays the same while the text grows. */
export type Block =
  | { readonly key: string; readonly kind: "html"; readonly html: string }
  | {
      readonly key: string;
      readonly kind: "code";
      readonly language: string;
      readonly code: string;
      /** The closing fence hasn't come yet. */
      readonly isOpen: boolean;
    };

/** A piece of the text; `block` is null for what shows nothing (blank lines, link definitions). */
interface Piece {
  readonly start: number;
  readonly raw: string;
  readonly defs: readonly Tokens.Def[];
  readonly isBlank: boolean;
  block: Block | null;
}

/** Text added at the end can change the block it is in, and whether that still belongs to the one
    before it (a list, after a blank line). */
const NUM_UNSETTLED = 2;

/**
 * The blocks of a text that grows at its end. What was settled isn't read again, so that appending
 * costs as much as the last blocks are long; their objects stay the same.
 */
export class MarkdownBlocks {
  blocks: readonly Block[] = [];

  #text = "";
  #isComplete = false;
  #pieces: Piece[] = [];
  #links = "";

  /** Take the text as it is now. `isComplete`: no more will come. Returns `blocks`. */
  update(text: string, isComplete: boolean): readonly Block[] {
    const clean = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (clean === this.#text && isComplete === this.#isComplete) {
      return this.blocks;
    }
    const isGrown = isComplete === this.#isComplete && clean.startsWith(this.#text);
    const settled = isGrown ? this.#pieces.slice(0, settledCount(this.#pieces, this.#text)) : [];
    const old = new Map(this.#pieces.map((piece) => [piece.start, piece]));
    const from = endOf(settled);
    const fresh = split(clean, from, isComplete);
    this.#text = clean;
    this.#isComplete = isComplete;
    this.#pieces = [...settled, ...fresh];
    this.#render(settled.length, old);
    this.blocks = this.#pieces.flatMap((piece) => piece.block ?? []);
    return this.blocks;
  }

  /** Make what is new; what was there and refers to links is made again when those changed. */
  #render(numSettled: number, old: ReadonlyMap<number, Piece>): void {
    const links = linksOf(this.#pieces);
    const known = JSON.stringify(links);
    const isChanged = known !== this.#links;
    this.#links = known;
    this.#pieces.forEach((piece, index) => {
      if (index >= numSettled || (isChanged && mayRefer(piece))) {
        const made = blockOf(piece, links, this.#isComplete);
        const before = old.get(piece.start)?.block ?? null;
        piece.block = made !== null && before !== null && isSame(made, before) ? before : made;
      }
    });
  }
}

/** The blocks of a text that is whole. */
export function splitBlocks(text: string): readonly Block[] {
  return new MarkdownBlocks().update(text, true);
}

/** How many pieces from the first can't change any more. What follows starts after a blank line:
    there the reading depends on nothing before. */
function settledCount(pieces: readonly Piece[], text: string): number {
  let num = pieces.length;
  let numSeen = 0;
  while (num > 0 && !(numSeen >= NUM_UNSETTLED && isAfterBlankLine(text, pieces[num]))) {
    num -= 1;
    numSeen += pieces[num]?.isBlank === false ? 1 : 0;
  }
  return num;
}

function isAfterBlankLine(text: string, piece: Piece | undefined): boolean {
  if (piece === undefined || piece.isBlank || text.charAt(piece.start - 1) !== "\n") {
    return false;
  }
  let at = piece.start - 2;
  while (at >= 0 && (text.charAt(at) === " " || text.charAt(at) === "\t")) {
    at -= 1;
  }
  return at >= 0 && text.charAt(at) === "\n";
}

function endOf(pieces: readonly Piece[]): number {
  const last = pieces.at(-1);
  return last === undefined ? 0 : last.start + last.raw.length;
}

function split(text: string, from: number, isComplete: boolean): Piece[] {
  const rest = text.slice(from);
  const pieces: Piece[] = [];
  let start = from;
  for (const token of topTokens(rest, isComplete)) {
    const end = start + token.raw.length;
    const raw = text.slice(start, end); // a token's own may say "\n" for a space at its end
    if (raw.trimEnd() !== token.raw.trimEnd()) {
      return [pieceOf({ type: "paragraph", raw: rest }, from, [])]; // the lexer lost its place
    }
    const isGrowing = !isComplete && end === text.length;
    pieces.push(pieceOf({ ...token, raw }, start, isGrowing ? [] : defsIn(token)));
    start = end;
  }
  return pieces;
}

interface TopToken extends Partial<Pick<CodeToken, "lang" | "text" | "isOpen">> {
  readonly type: string;
  readonly raw: string;
}

function topTokens(text: string, isComplete: boolean): readonly TopToken[] {
  try {
    return lexerFor(isComplete).blockTokens(text, []) as readonly TopToken[];
  } catch {
    return [{ type: "paragraph", raw: text }]; // e.g. nested deeper than the stack
  }
}

function pieceOf(token: TopToken, start: number, defs: readonly Tokens.Def[]): Piece {
  const isBlank = token.type === "space";
  const key = String(start);
  const code: Block | null =
    token.type === "code"
      ? {
          key,
          kind: "code",
          language: token.lang ?? "",
          code: token.text ?? "",
          isOpen: token.isOpen ?? false,
        }
      : null;
  return { start, raw: token.raw, defs, isBlank: isBlank || token.type === "def", block: code };
}

function blockOf(piece: Piece, links: Links, isComplete: boolean): Block | null {
  if (piece.isBlank || piece.block?.kind === "code") {
    return piece.block;
  }
  const html = renderBlock(piece.raw, links, isComplete);
  return { key: String(piece.start), kind: "html", html };
}

function defsIn(token: TopToken): Tokens.Def[] {
  const found: Tokens.Def[] = [];
  const walk = (tokens: readonly Token[]) => {
    for (const each of tokens) {
      if (each.type === "def") {
        found.push(each as Tokens.Def);
      } else {
        const { tokens: inner, items } = each as { tokens?: Token[]; items?: Token[] };
        walk(inner ?? items ?? []);
      }
    }
  };
  if (token.type !== "code" && token.raw.includes("]:")) {
    walk([token as unknown as Token]);
  }
  return found;
}

function linksOf(pieces: readonly Piece[]): Links {
  const links = Object.create(null) as Links;
  for (const { tag, href } of pieces.flatMap((piece) => piece.defs)) {
    links[tag] ??= { href, title: null };
  }
  return links;
}

function mayRefer(piece: Piece): boolean {
  return piece.block?.kind === "html" && piece.raw.includes("[");
}

function isSame(one: Block, other: Block): boolean {
  if (one.kind === "html") {
    return other.kind === "html" && one.html === other.html;
  }
  return (
    other.kind === "code" &&
    one.code === other.code &&
    one.language === other.language &&
    one.isOpen === other.isOpen
  );
}
