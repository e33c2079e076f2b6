/** Which addresses a text may link to. Pure. */

const SCHEMES = new Set(["http:", "https:", "mailto:"]);
const MAX_URL_CHARS = 4096;
const NAMED: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

/** The address in its normal form; null for one that isn't absolute or not of a harmless scheme. */
export function safeUrl(href: string): string | null {
  if (href.length > MAX_URL_CHARS) {
    return null;
  }
  try {
    const url = new URL(decodeReferences(href));
    return SCHEMES.has(url.protocol) && url.href.length <= MAX_URL_CHARS ? url.href : null;
  } catch {
    return null;
  }
}

/** `&#58;` and the like as characters: what is checked must be what a browser would follow. */
function decodeReferences(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos));/g,
    (all: string, decimal?: string, hex?: string, name?: string) => {
      if (name !== undefined) {
        return NAMED[name] ?? all;
      }
      const code = decimal !== undefined ? Number(decimal) : parseInt(hex ?? "", 16);
      return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
    },
  );
}

const ESCAPES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Text as HTML that shows exactly this text, in elements and in quoted attributes. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (char) => ESCAPES[char] ?? char);
}
