// @vitest-environment jsdom
import { fireEvent, render, screen } from "@testing-library/svelte";
import { afterEach, expect, test, vi } from "vitest";

import { FakeApp } from "../../dev/fake.svelte";
import Stage from "../../dev/Stage.svelte";
import CopyButton from "./CopyButton.svelte";

afterEach(() => {
  Reflect.deleteProperty(navigator, "clipboard");
  Reflect.deleteProperty(document, "execCommand");
});

function setUp() {
  const said: string[] = [];
  const given = { text: "two\nlines", label: "Copy" };
  render(Stage, { app: new FakeApp(), of: CopyButton, given, said });
  const button = screen.getByRole("button");
  button.focus();
  return { said, button };
}

/** What the old command would copy each time. */
function oldWay(works: boolean): string[] {
  const copied: string[] = [];
  const execCommand = () => {
    const { value, selectionStart, selectionEnd } = document.activeElement as HTMLTextAreaElement;
    copied.push(value.slice(selectionStart, selectionEnd));
    return works;
  };
  Object.assign(document, { execCommand });
  return copied;
}

test("it is copied with the browser's clipboard where there is one", async () => {
  const writeText = vi.fn(() => Promise.resolve());
  Object.defineProperty(navigator, "clipboard", { value: { writeText }, configurable: true });
  const { button, said } = setUp();
  await fireEvent.click(button);
  await vi.waitFor(() => expect(said).toEqual(["Copied"]));
  expect(writeText).toHaveBeenCalledExactlyOnceWith("two\nlines");
});

test("on plain http it is copied all the same, and the focus stays", async () => {
  const copied = oldWay(true);
  const { button, said } = setUp();
  await fireEvent.click(button);
  await vi.waitFor(() => expect(said).toEqual(["Copied"]));
  expect(copied).toEqual(["two\nlines"]);
  expect(document.activeElement).toBe(button);
  expect(document.querySelector("textarea")).toBeNull();
});

test("where nothing works that is said", async () => {
  oldWay(false);
  const { button, said } = setUp();
  await fireEvent.click(button);
  await vi.waitFor(() => expect(said).toEqual(["Can't copy here"]));
});
