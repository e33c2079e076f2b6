/** The second wall: whatever the renderer made, only this passes. Needs a DOM; without one nothing
    passes as HTML. */
import DOMPurify, { type Config } from "dompurify";

import { escapeHtml } from "./links";

const TAGS =
  "p br hr strong em del code pre blockquote ul ol li h1 h2 h3 h4 h5 h6 table thead tbody tr th td a";

const CONFIG: Config = {
  ALLOWED_TAGS: TAGS.split(" "),
  ALLOWED_ATTR: ["href", "target", "rel", "class", "align", "start"],
  ADD_URI_SAFE_ATTR: ["target", "rel", "align", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  ALLOWED_NAMESPACES: ["http://www.w3.org/1999/xhtml"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOW_UNKNOWN_PROTOCOLS: false,
};

/** What an allowed attribute may say, by element. */
const VALUES: Record<string, (element: string, value: string) => boolean> = {
  class: (element, value) => element === "CODE" && /^language-[\w+#.-]{1,40}$/.test(value),
  align: (element, value) => /^T[HD]$/.test(element) && /^(?:left|center|right)$/.test(value),
  start: (element, value) => element === "OL" && /^\d{1,9}$/.test(value),
  href: (element) => element === "A",
  target: (element, value) => element === "A" && value === "_blank",
  rel: (element) => element === "A",
};

let isReady = false;

function prepare(): void {
  isReady = true;
  DOMPurify.addHook("uponSanitizeAttribute", (node, data) => {
    const isFine = VALUES[data.attrName];
    if (isFine === undefined || !isFine(node.nodeName, data.attrValue)) {
      data.keepAttr = false;
    }
  });
  DOMPurify.addHook("afterSanitizeAttributes", (node) => {
    if (node.nodeName === "A" && node.hasAttribute("href")) {
      node.setAttribute("target", "_blank");
      node.setAttribute("rel", "noopener noreferrer nofollow");
    }
  });
}

/** HTML with nothing in it but text, its structure and links. */
export function sanitize(html: string): string {
  if (!DOMPurify.isSupported) {
    return escapeHtml(html);
  }
  if (!isReady) {
    prepare();
  }
  return DOMPurify.sanitize(html, CONFIG);
}
