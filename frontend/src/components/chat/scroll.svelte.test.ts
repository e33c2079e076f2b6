// @vitest-environment jsdom
import { flushSync } from "svelte";
import { expect, onTestFinished, test } from "vitest";

import { ListScroll } from "./scroll.svelte";
import { indicesOf, windowOf } from "./window";

const WINDOW_PX = 100;
const GUESS_PX = 50;

/** A list on a page without layout: its rows are as high as they are said to be, and scrolling is
    bounded as in a browser. */
class Page {
  ids = $state.raw<readonly string[]>([]);
  readonly real: Record<string, number> = {};
  readonly scroll = new ListScroll({ ids: () => this.ids, guess: () => GUESS_PX });
  readonly node = document.createElement("div");
  readonly #rows = new Map<string, () => void>();
  #top = 0;
  #height = 0;

  constructor(heights: Record<string, number>) {
    Object.assign(this.real, heights);
    this.ids = Object.keys(heights);
    Object.defineProperties(this.node, {
      clientWidth: { value: 300 },
      clientHeight: { value: WINDOW_PX },
      scrollHeight: { get: () => Math.max(WINDOW_PX, this.#height) },
      scrollTop: { get: () => this.#top, set: (top: number) => this.#moveTo(top) },
    });
    const end = $effect.root(() => {
      $effect(() => this.scroll.scroller(this.node));
      $effect(() => {
        this.#height = this.scroll.total;
        this.#moveTo(this.#top);
        this.#show();
      });
      $effect(() => {
        void this.scroll.offsets;
        this.scroll.settle();
      });
    });
    onTestFinished(end);
    flushSync();
  }

  /** What the reader does. */
  scrollTo(top: number): void {
    this.#moveTo(top);
    this.scrolled();
  }

  scrolled(): void {
    this.scroll.scrolled();
    flushSync();
  }

  /** How far the window's end is from the list's. */
  get left(): number {
    return this.node.scrollHeight - WINDOW_PX - this.#top;
  }

  /** How far below the window's top a row begins. */
  placeOf(id: string): number {
    return (this.scroll.offsets[this.ids.indexOf(id)] ?? 0) - this.#top;
  }

  #moveTo(top: number): void {
    this.#top = Math.min(Math.max(0, top), this.node.scrollHeight - WINDOW_PX);
  }

  #show(): void {
    const { offsets, top, viewport } = this.scroll;
    const shown = indicesOf(windowOf(offsets, top, viewport, 0), []).map(
      (at) => this.ids[at] ?? "",
    );
    for (const [id, gone] of this.#rows) {
      if (!shown.includes(id)) {
        gone();
        this.#rows.delete(id);
      }
    }
    for (const id of shown.filter((one) => !this.#rows.has(one))) {
      const row = document.createElement("article");
      row.dataset["id"] = id;
      row.getBoundingClientRect = () => new DOMRect(0, 0, 300, this.real[id]);
      this.#rows.set(id, this.scroll.row(row));
    }
  }
}

const TALL = { a: 700, b: 900, c: 400, d: 800 };

test("a list of rows taller than the window opens at its end and stays there", () => {
  const page = new Page(TALL);
  expect(page.left).toBe(0);
  page.scrolled();
  expect(page.left).toBe(0);
  expect(page.scroll.isFollowing).toBe(true);
});

test("a row that grows below the end takes the window with it", () => {
  const page = new Page(TALL);
  page.ids = [...page.ids, "e"];
  page.real["e"] = 600;
  flushSync();
  page.scrolled();
  expect(page.left).toBe(0);
});

test("who reads further up stays there while rows above become known and others come", () => {
  const page = new Page({ a: 700, b: 900, c: 400, d: 800, e: 300, f: 500 });
  page.scrollTo(page.node.scrollTop - 600);
  expect(page.scroll.isFollowing).toBe(false);
  const [place, id] = [page.placeOf("e"), "e"];
  page.ids = [...page.ids, "g"];
  flushSync();
  page.scrolled();
  expect(page.placeOf(id)).toBe(place);
  expect(page.scroll.isFollowing).toBe(false);
});

test("to the end, from anywhere", () => {
  const page = new Page(TALL);
  page.scrollTo(0);
  expect(page.left).toBeGreaterThan(0);
  page.scroll.toEnd();
  flushSync();
  page.scrolled();
  expect(page.left).toBe(0);
  expect(page.scroll.isFollowing).toBe(true);
});
