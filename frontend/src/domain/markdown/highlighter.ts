/** highlight.js with the common languages; loaded by `highlight` only. */
import hljs from "highlight.js/lib/common";

/** null for a language that isn't there. */
export function highlightKnown(code: string, language: string): string | null {
  return hljs.getLanguage(language) === undefined
    ? null
    : hljs.highlight(code, { language, ignoreIllegals: true }).value;
}
