/** Colours for code. highlight.js is a chunk of its own that comes with the first code block. */
import { escapeHtml } from "./links";

/** Longer code stays plain: it would hold up the page. */
export const MAX_HIGHLIGHT_CHARS = 40_000;

/** What highlight.js may answer with: text and spans with its own classes. */
const MARKED_UP = /^(?:[^<]|<span class="(?:hljs-|language-)[\w -]+">|<\/span>)*$/;

type Highlighter = typeof import("./highlighter");
let loading: Promise<Highlighter> | null = null;

async function highlighter(): Promise<Highlighter> {
  loading ??= import("./highlighter");
  try {
    return await loading;
  } catch (error) {
    loading = null; // the network may be back for the next block
    throw error;
  }
}

/** Escaped HTML of `code` with `hljs-…` classes; plain for languages that aren't known. */
export async function highlight(code: string, language: string): Promise<string> {
  const plain = escapeHtml(code);
  if (language === "" || code.length > MAX_HIGHLIGHT_CHARS) {
    return plain;
  }
  try {
    const { highlightKnown } = await highlighter();
    const html = highlightKnown(code, language.toLowerCase());
    return html !== null && MARKED_UP.test(html) ? html : plain;
  } catch {
    return plain;
  }
}
