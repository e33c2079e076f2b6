import { expect, it } from "vitest";

import { highlight, MAX_HIGHLIGHT_CHARS } from "./highlight";

const hostile = '<img src=x onerror="alert(1)">';

it("marks what it knows, under any of its names", async () => {
  expect(await highlight("let a = 1;", "js")).toContain('<span class="hljs-keyword">let</span>');
  expect(await highlight("x = 1", "Python")).toContain("hljs-number");
});

it("escapes code in every language", async () => {
  for (const language of ["", "html", "xml", "js", "markdown", "php", "nonsense"]) {
    const html = await highlight(hostile, language);
    expect(html).not.toMatch(/<(?!\/?span)/);
    expect(html).toContain("&lt;");
  }
});

it("leaves languages that aren't there plain", async () => {
  expect(await highlight("a < b", "brainwave")).toBe("a &lt; b");
  expect(await highlight("a < b", "__proto__")).toBe("a &lt; b");
  expect(await highlight("a < b", "constructor")).toBe("a &lt; b");
});

it("leaves long code plain", async () => {
  const code = "let a;\n".repeat(MAX_HIGHLIGHT_CHARS / 7 + 1);
  expect(await highlight(code, "js")).toBe(code);
});
