// @vitest-environment jsdom
import { render } from "@testing-library/svelte";
import { tick } from "svelte";
import { expect, test } from "vitest";

import { FakeApp } from "../../dev/fake.svelte";
import Stage from "../../dev/Stage.svelte";
import CodeBlock from "./CodeBlock.svelte";

test("what is selected stays so while the code is being written", async () => {
  const app = new FakeApp();
  const given = (code: string) => ({ code, language: "", isOpen: true });
  const { container, rerender } = render(Stage, { app, of: CodeBlock, given: given("one\n") });
  const code = container.querySelector("code");
  const text = code?.firstChild;
  expect(text?.textContent).toBe("one\n");
  await rerender({ given: given("one\ntwo\n") });
  await tick();
  expect(code?.textContent).toBe("one\ntwo\n");
  expect(code?.firstChild).toBe(text);
  await rerender({ given: given("other") });
  expect(code?.textContent).toBe("other");
});
