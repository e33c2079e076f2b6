/** Markdown → safe HTML of one piece of text. */
import { Lexer, Parser, Renderer, type Links, type Token, type Tokens } from "marked";

import { escapeHtml, safeUrl } from "./links";
import { sanitize } from "./sanitize";
import { SafeTokenizer } from "./tokenizer";

/** A longer block is shown as plain text: what it costs to read inline marks isn't linear. */
export const MAX_INLINE_CHARS = 64 * 1024;

export function lexerFor(isComplete: boolean): Lexer {
  return new Lexer({ gfm: true, tokenizer: new SafeTokenizer(isComplete) });
}

/** The HTML of a block. `links`: what reference links may refer to. */
export function renderBlock(raw: string, links: Links, isComplete: boolean): string {
  if (raw.length > MAX_INLINE_CHARS) {
    return plain(raw);
  }
  try {
    const lexer = lexerFor(isComplete);
    Object.assign(lexer.tokens.links, links);
    const tokens: Token[] = lexer.lex(raw);
    return sanitize(new Parser({ gfm: true, renderer: new SafeRenderer() }).parse(tokens));
  } catch {
    return plain(raw); // e.g. nested deeper than the stack
  }
}

function plain(raw: string): string {
  return `<p>${escapeHtml(raw.trim())}</p>`;
}

class SafeRenderer extends Renderer {
  override html({ text }: Tokens.HTML | Tokens.Tag): string {
    return escapeHtml(text);
  }

  override code({ text, lang }: Tokens.Code): string {
    const name = /^[\w+#.-]{1,40}$/.test(lang ?? "") ? ` class="language-${lang}"` : "";
    return `<pre><code${name}>${escapeHtml(text)}\n</code></pre>\n`;
  }

  override checkbox({ checked }: Tokens.Checkbox): string {
    return checked ? "☑ " : "☐ ";
  }

  override link({ href, tokens }: Tokens.Link): string {
    return link(href, this.parser.parseInline(tokens));
  }

  /** Pictures are never loaded: a link with the picture's description instead. */
  override image({ href, text }: Tokens.Image): string {
    const url = safeUrl(href);
    return link(href, escapeHtml(text === "" ? (url ?? href) : text));
  }
}

function link(href: string, label: string): string {
  const url = safeUrl(href);
  return url === null
    ? label
    : `<a href="${escapeHtml(url)}" target="_blank" rel="noopener noreferrer nofollow">${label}</a>`;
}
