import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { fenceAt } from "./fences";

const whole = (text: string) => fenceAt(text, true);

describe("CommonMark", () => {
  it("a longer fence isn't closed by a shorter one", () => {
    const text = "`````\n```\na\n````\n`````\nrest";
    expect(whole(text)).toMatchObject({ code: "```\na\n````", isOpen: false });
    expect(whole(text)?.raw).toBe("`````\n```\na\n````\n`````");
  });

  it("a fence is closed by one of at least its length, of its own kind, with nothing after it", () => {
    expect(whole("```\na\n~~~\n``` b\n````  \nc")).toMatchObject({ code: "a\n~~~\n``` b" });
    expect(whole("~~~\na\n```\n~~~")).toMatchObject({ code: "a\n```" });
    expect(whole("```\na\n    ```\n   ```")).toMatchObject({ code: "a\n    ```" });
  });

  it("an unclosed one goes on to the end", () => {
    expect(whole("```js\na\n\nb\n")).toMatchObject({
      language: "js",
      code: "a\n\nb",
      isOpen: true,
    });
    expect(whole("```")).toMatchObject({ language: "", code: "", isOpen: true });
    expect(whole("```\n```")).toMatchObject({ code: "", isOpen: false });
    expect(whole("```\n\n```")).toMatchObject({ code: "", isOpen: false });
  });

  it("takes away as much indentation as the fence has", () => {
    expect(whole("  ```\n    a\n  b\n c\n  ```")).toMatchObject({ code: "  a\nb\nc" });
  });

  it("isn't opened by inline code, or four spaces", () => {
    expect(whole("``` a ` b\n")).toBeNull();
    expect(whole("    ```\n")).toBeNull();
    expect(whole("``\na\n``")).toBeNull();
    expect(whole("text\n```\n")).toBeNull();
  });

  it("names the language by the first word", () => {
    expect(whole("```  c++ title=x\n```")?.language).toBe("c++");
    expect(whole(`\`\`\`${"x".repeat(100)}\n\`\`\``)?.language).toHaveLength(40);
  });
});

describe("a Markdown file with code blocks in it", () => {
  const inner = "# Title\n\n```python\nprint(1)\n```\n\n```js\n1\n```\n\nend";

  it("is one block when the outer fence is of the same length", () => {
    const text = `\`\`\`markdown\n${inner}\n\`\`\`\n\nafter`;
    expect(whole(text)).toMatchObject({ language: "markdown", code: inner, isOpen: false });
  });

  it("is one block when the outer fence is longer, as ever", () => {
    const bare = "a\n```\nb\n```\nc";
    expect(whole(`\`\`\`\`md\n${bare}\n\`\`\`\``)).toMatchObject({ code: bare, isOpen: false });
  });

  it("stays one open block while it is written", () => {
    const text = `\`\`\`md\n${inner}`;
    for (let end = 7; end <= text.length; end += 1) {
      expect(fenceAt(text.slice(0, end), false)).toMatchObject({ language: "md", isOpen: true });
    }
  });

  it("is read as CommonMark when the outer fence never comes", () => {
    expect(whole("```md\n```python\nx\n```\nthe answer goes on")).toMatchObject({
      code: "```python\nx",
      isOpen: false,
    });
  });

  it("is read as CommonMark in other languages and without languages inside", () => {
    expect(whole("```text\n```python\nx\n```\ny\n```")).toMatchObject({ code: "```python\nx" });
    expect(whole("```md\na\n```\nb\n```\nc\n```")).toMatchObject({ code: "a" });
  });
});

it("does not show the first characters of the closing fence as code", () => {
  for (const tail of ["`", "``", "```"]) {
    expect(fenceAt(`\`\`\`\`js\na\n${tail}`, false)?.code).toBe("a");
  }
  expect(fenceAt("```js\na\n`b", false)?.code).toBe("a\n`b");
});

it("is a prefix of the text and never longer than it", () => {
  const piece = fc.constantFrom(
    "`",
    "```",
    "~~~",
    "\n",
    "md",
    "a",
    " ",
    "markdown",
    "````",
    "\n```",
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), fc.boolean(), (pieces, isComplete) => {
      const text = `\`\`\`${pieces.join("")}`;
      const fence = fenceAt(text, isComplete);
      expect(fence === null || text.startsWith(fence.raw)).toBe(true);
      expect(fence?.isOpen === true ? fence.raw : text).toBe(text);
    }),
  );
});
