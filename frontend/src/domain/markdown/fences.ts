/** Fenced code blocks, by the rules of CommonMark and one of our own. Pure.

    CommonMark: a fence is three or more backticks or tildes; it ends at a line with nothing but at
    least as many of the same character. A block that doesn't end goes on to the end of the text.

    Our own, for what models write when they mean a Markdown file with code blocks in it: within a
    block whose language is `markdown` or `md`, a fence of the same kind with a language opens an
    inner block, and the next fence without one closes that. It holds when the outer block is closed
    too; a text that is whole and where it isn't is read as CommonMark. Longer outer fences need no
    rule. */

export interface Fence {
  /** As it stands in the text, without the line break after it. */
  readonly raw: string;
  /** The first word after the fence; "" if there is none. */
  readonly language: string;
  readonly code: string;
  /** The closing fence hasn't come. */
  readonly isOpen: boolean;
}

const OPENING = /^( {0,3})(`{3,}(?=[^`\n]*(?:\n|$))|~{3,})([^\n]*)(?:\n|$)/;
const FENCE_LINE = /^ {0,3}(`{3,}|~{3,})([^\n]*)$/;
const NESTING = new Set(["markdown", "md"]);
const MAX_LANGUAGE_CHARS = 40;

/** The fenced block at the start of `text`; null if there is none. */
export function fenceAt(text: string, isComplete: boolean): Fence | null {
  const opening = OPENING.exec(text);
  if (opening === null) {
    return null;
  }
  const [head = "", indent = "", fence = "", info = ""] = opening;
  const language = languageOf(info);
  let end = null;
  if (NESTING.has(language.toLowerCase())) {
    end = closingOf(text, head.length, fence, true);
    // A fence at the very end may still get a language.
    if (!isComplete && (end === null || end.to === text.length)) {
      return openFence(text, head.length, indent, fence, language, isComplete);
    }
  }
  end ??= closingOf(text, head.length, fence, false);
  if (end === null) {
    return openFence(text, head.length, indent, fence, language, isComplete);
  }
  const code = text.slice(head.length, Math.max(head.length, end.from - 1));
  return {
    raw: text.slice(0, end.to),
    language,
    code: unindent(code, indent.length),
    isOpen: false,
  };
}

function openFence(
  text: string,
  from: number,
  indent: string,
  fence: string,
  language: string,
  isComplete: boolean,
): Fence {
  let code = text.slice(from);
  const lastLine = code.slice(code.lastIndexOf("\n") + 1);
  if (!isComplete && isFenceBeginning(lastLine, fence)) {
    code = code.slice(0, code.length - lastLine.length);
  }
  code = code.endsWith("\n") ? code.slice(0, -1) : code;
  return { raw: text, language, code: unindent(code, indent.length), isOpen: true };
}

/** The first characters of what may become the closing fence: not shown as code meanwhile. */
function isFenceBeginning(line: string, fence: string): boolean {
  const mark = line.trimStart();
  const char = fence.charAt(0);
  return mark !== "" && mark === char.repeat(mark.length) && line.length - mark.length <= 3;
}

interface Range {
  readonly from: number;
  readonly to: number;
}

/** Where the line is that closes the block; null: nowhere. */
function closingOf(text: string, start: number, fence: string, isNesting: boolean): Range | null {
  let isInner = false;
  for (let from = start; from < text.length;) {
    const newline = text.indexOf("\n", from);
    const to = newline < 0 ? text.length : newline;
    const mark = fenceMark(text, from, to, fence);
    if (mark === "closing") {
      if (!isInner) {
        return { from, to };
      }
      isInner = false;
    } else if (mark === "opening" && isNesting) {
      isInner = true;
    }
    from = to + 1;
  }
  return null;
}

function fenceMark(
  text: string,
  from: number,
  to: number,
  fence: string,
): "opening" | "closing" | null {
  const char = fence.charAt(0);
  let at = from;
  while (at < from + 3 && text.charAt(at) === " ") {
    at += 1;
  }
  if (text.charAt(at) !== char) {
    return null;
  }
  const found = FENCE_LINE.exec(text.slice(from, to));
  if (found === null || (found[1] ?? "").length < fence.length) {
    return null;
  }
  const info = (found[2] ?? "").trim();
  if (info === "") {
    return "closing";
  }
  return info.includes(char) ? null : "opening";
}

function languageOf(info: string): string {
  const word = /^\s*(\S*)/.exec(info)?.[1] ?? "";
  return word.replace(/\\([!-/:-@[-`{-~])/g, "$1").slice(0, MAX_LANGUAGE_CHARS);
}

function unindent(code: string, num: number): string {
  return num === 0 ? code : code.replace(new RegExp(`^ {1,${num}}`, "gm"), "");
}
