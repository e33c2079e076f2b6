// @vitest-environment jsdom
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";

import { MarkdownBlocks, splitBlocks, type Block } from "./blocks";

function contents(blocks: readonly Block[]): unknown[] {
  return blocks.map((block) => ({ ...block }));
}

function htmlOf(text: string): string {
  return splitBlocks(text)
    .map((block) => (block.kind === "html" ? block.html : `[code ${block.language}]`))
    .join("");
}

const PIECES = [
  "word",
  "*em*",
  "**strong",
  "~~gone~~",
  "`code`",
  "[a]",
  "[a][b]",
  "[x](https://e.org/y)",
  "![p](https://e.org/p.png)",
  "\n",
  "\n\n",
  "\n \n",
  "  ",
  "    ",
  "\t",
  "- ",
  "\n- one\n- two",
  "\n1. first",
  "\n   - inner",
  "> ",
  "\n> quote",
  "\n# Head",
  "\n===",
  "\n---\n",
  "\n```js\nlet a;\n```\n",
  "\n```",
  "\n````markdown\n```\nx\n```\n````",
  "\n```markdown\n```py\nx\n```\n```\n",
  "\n~~~\n",
  "\n  ```\n  in list\n  ```",
  "| a | b |\n",
  "|---|:-:|\n",
  "| 1 | 2 |\n",
  "\n[a]: https://e.org/a\n",
  "\n[b]: https://e.org/b 'title'\n\n",
  "<div>",
  "\n<details>\n<summary>s</summary>\n",
  "<br>",
  "<!-- no",
  "-->",
  "\n<script>\n",
  "&amp;",
  "&#60;",
  "\\",
  "_",
  "\r\n",
  "$5 and ~$300/t",
  "漢字",
  "😺",
];
const markdown = fc
  .array(fc.oneof({ weight: 12, arbitrary: fc.constantFrom(...PIECES) }, fc.string()), {
    maxLength: 40,
  })
  .map((pieces) => pieces.join(""));
const RUNS = { numRuns: 200 };
vi.setConfig({ testTimeout: 60_000 }); // properties, on a busy machine

describe("incremental blocks", () => {
  it("equal those of the whole text, wherever it was cut", () => {
    fc.assert(
      fc.property(markdown, fc.array(fc.nat(), { maxLength: 12 }), (text, cuts) => {
        const ends = cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b);
        const growing = new MarkdownBlocks();
        for (const end of ends) {
          const shown = growing.update(text.slice(0, end), false);
          const fresh = new MarkdownBlocks().update(text.slice(0, end), false);
          expect(contents(shown)).toEqual(contents(fresh));
        }
        expect(contents(growing.update(text, true))).toEqual(contents(splitBlocks(text)));
      }),
      RUNS,
    );
  });

  it("equal them character by character too", () => {
    fc.assert(
      fc.property(markdown, (text) => {
        const growing = new MarkdownBlocks();
        for (let end = 0; end <= Math.min(text.length, 160); end += 1) {
          const fresh = new MarkdownBlocks().update(text.slice(0, end), false);
          expect(contents(growing.update(text.slice(0, end), false))).toEqual(contents(fresh));
        }
      }),
      { numRuns: 40 },
    );
  });

  it("keep the objects of what didn't change", () => {
    fc.assert(
      fc.property(markdown, markdown, (text, more) => {
        const growing = new MarkdownBlocks();
        const before = [...growing.update(text, false)];
        const after = growing.update(text + more, false);
        for (const block of before) {
          const same = after.find((each) => each.key === block.key);
          if (same !== undefined && JSON.stringify(same) === JSON.stringify(block)) {
            expect(same).toBe(block);
          }
        }
      }),
      RUNS,
    );
  });

  it("show all of a text: no character of it is lost between blocks", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("alpha", "beta", "gamma", "delta")), (words) => {
        const text = words.map((word, index) => `${word}${String(index)}x\n\n`).join("");
        const html = htmlOf(text);
        words.forEach((word, index) => {
          expect(html).toContain(`<p>${word}${String(index)}x</p>`);
        });
      }),
    );
  });

  it("only the last block changes while a long answer grows", () => {
    const growing = new MarkdownBlocks();
    let text = Array.from({ length: 200 }, (_, index) => `Paragraph ${String(index)}.\n\n`).join(
      "",
    );
    const before = growing.update(text, false);
    text += "The last";
    const after = growing.update(text, false);
    expect(after.length).toBe(201);
    before.forEach((block, index) => {
      expect(after[index]).toBe(block);
    });
    const again = growing.update(`${text} one`, false);
    expect(again.slice(0, 200).every((block, index) => block === after[index])).toBe(true);
    expect(again[200]).not.toBe(after[200]);
  });

  it("starts anew for a text that isn't the old one and more", () => {
    const growing = new MarkdownBlocks();
    growing.update("# One\n\ntwo\n\nthree", false);
    expect(contents(growing.update("other", false))).toEqual(contents(splitBlocks("other")));
  });

  it("makes a reference link as soon as its definition is whole, and only then", () => {
    const growing = new MarkdownBlocks();
    const text = "See [this][1].\n\nPlain.\n\n";
    const [first, plain] = growing.update(text, false);
    expect(growing.update(`${text}[1]: https://e.o`, false)[0]).toBe(first);
    const after = growing.update(`${text}[1]: https://e.org/a\n\nmore`, false);
    expect(after[0]).toMatchObject({ html: expect.stringContaining('href="https://e.org/a"') });
    expect(after[1]).toBe(plain);
  });

  it("reads again only as much as the last blocks hold", () => {
    const growing = new MarkdownBlocks();
    const long = "A paragraph of some length, *with* marks.\n\n".repeat(2500);
    growing.update(long, false);
    const lexed: number[] = [];
    const { slice } = String.prototype;
    // The text that is lexed is what `slice` cuts off behind the settled part.
    String.prototype.slice = function (from, to) {
      const cut = slice.call(this, from, to);
      if (to === undefined && this.length > 100_000) {
        lexed.push(cut.length);
      }
      return cut;
    };
    try {
      growing.update(`${long}and`, false);
    } finally {
      String.prototype.slice = slice;
    }
    expect(lexed.length).toBeGreaterThan(0);
    expect(Math.max(...lexed)).toBeLessThan(200);
  });
});

describe("code", () => {
  it("comes as data", () => {
    expect(splitBlocks("```python title\nprint(1)\n```")).toEqual([
      { key: "0", kind: "code", language: "python", code: "print(1)", isOpen: false },
    ]);
  });

  it("is open until its fence comes", () => {
    const growing = new MarkdownBlocks();
    expect(growing.update("```js\nlet a", false)).toMatchObject([{ code: "let a", isOpen: true }]);
    expect(growing.update("```js\nlet a\n``", false)).toMatchObject([
      { code: "let a", isOpen: true },
    ]);
    expect(growing.update("```js\nlet a\n```\nb", false)).toMatchObject([
      { code: "let a", isOpen: false },
      { kind: "html" },
    ]);
  });

  it("in a list is part of the list", () => {
    const html = htmlOf("- do:\n\n  ```sh\n  ls <x>\n  ```\n- next");
    expect(html).toContain('<pre><code class="language-sh">ls &lt;x&gt;\n</code></pre>');
    expect(html).toContain("<li><p>next</p>");
  });

  it("indented by four is code without a language", () => {
    expect(splitBlocks("text\n\n    a\n    b\n\nmore")).toMatchObject([
      { kind: "html" },
      { kind: "code", language: "", code: "a\nb" },
      { kind: "html" },
    ]);
  });
});

describe("marks", () => {
  it("prices and a single tilde stay as they are", () => {
    const text = "R$ 12,29/metro … R$ 15,83, $5 and $10, ~$300/t up to ~$400/t";
    expect(htmlOf(text)).toBe(`<p>${text}</p>\n`);
    expect(htmlOf("~~gone~~")).toBe("<p><del>gone</del></p>\n");
  });

  it("tables, tasks and line breaks in cells work", () => {
    const html = htmlOf("| a | b |\n|:-:|---|\n| x<br>y | z |\n\n- [x] done\n- [ ] open");
    expect(html).toContain('<th align="center">a</th>');
    expect(html).toContain('<td align="center">x<br>y</td>');
    expect(html).toContain("☑ done");
    expect(html).toContain("☐ open");
    expect(html).not.toContain("<input");
  });

  it("numbers of lists that start later are kept", () => {
    expect(htmlOf("3. three\n4. four")).toContain('<ol start="3">');
  });
});

describe("hostile sizes", () => {
  it.each([
    ["brackets", "[".repeat(30_000)],
    ["quotes", ">".repeat(20_000)],
    ["lists", "- ".repeat(3_000)],
    ["stars", "*a **b ".repeat(8_000)],
    ["links", "[a](".repeat(10_000)],
    ["backticks", "`a``b```".repeat(5_000)],
    ["tables", "|a".repeat(20_000) + "\n" + "|-".repeat(20_000)],
    ["tildes", "~~a ".repeat(15_000)],
    ["one long line", "x".repeat(500_000)],
    ["angles", "<a ".repeat(20_000)],
    ["definitions", "[a]: b\n".repeat(5_000)],
    ["addresses", "a_".repeat(31_000) + "@"],
  ])("%s end in time", (_, text) => {
    expect(splitBlocks(text).length).toBeGreaterThanOrEqual(0);
  });
});
