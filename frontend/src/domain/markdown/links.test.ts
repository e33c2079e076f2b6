import { expect, it } from "vitest";

import { escapeHtml, safeUrl } from "./links";

it.each([
  ["https://example.org", "https://example.org/"],
  ["HTTP://Example.org/a?b=1&amp;c=2", "http://example.org/a?b=1&c=2"],
  ["https://e.org/?a=1&copy=2", "https://e.org/?a=1&copy=2"],
  ["mailto:a@example.org", "mailto:a@example.org"],
  ["https://bücher.example/", "https://xn--bcher-kva.example/"],
])("%s is a link", (href, url) => {
  expect(safeUrl(href)).toBe(url);
});

it.each([
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  " javascript:alert(1)",
  "java\nscript:alert(1)",
  "java\tscript:alert(1)",
  "\u0001javascript:alert(1)",
  "javascript&#58;alert(1)",
  "javascript&#x3A;alert(1)",
  "&#106;avascript:alert(1)",
  "javascript&colon;alert(1)",
  "data:text/html,<script>alert(1)</script>",
  "vbscript:x",
  "blob:https://e.org/x",
  "file:///etc/passwd",
  "ftp://e.org/",
  "//e.org/x",
  "/accounts/logout/",
  "#top",
  "",
  `https://e.org/${"x".repeat(5000)}`,
])("%s is none", (href) => {
  expect(safeUrl(href)).toBeNull();
});

it("escapes what HTML reads", () => {
  expect(escapeHtml(`<a href="x" id='y'>&amp;`)).toBe(
    "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;",
  );
});
