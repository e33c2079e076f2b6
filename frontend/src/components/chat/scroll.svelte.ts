/** Where a list of rows stands in its window, while their heights become known one by one. */
import { flushSync } from "svelte";

import { Follow } from "./follow";
import { Heights, indexAt, offsetsOf } from "./window";

export interface Rows {
  /** Of all rows, in order. */
  ids(): readonly string[];
  /** How high a row might be that was never measured. */
  guess(index: number): number;
}

/** A row and how far the window's top is below its beginning. */
interface Anchor {
  readonly id: string;
  readonly out: number;
}

/** At its end, which it follows, or with what the reader looks at where it is.

    All that may move it (a row appears, a height becomes known) ends in `settle` before anything is
    painted. Rows have their id in `data-id`. */
export class ListScroll {
  isFollowing = $state(true);
  /** How far the list is scrolled, and how high its window is. */
  top = $state(0);
  viewport = $state(0);

  readonly #rows: Rows;
  readonly #heights = new Heights();
  /** Counts the changes of `#heights`. */
  #measured = $state(0);
  readonly #follow = new Follow();
  readonly #sizes = new ResizeObserver((entries) => this.#resized(entries));
  #scroller: HTMLElement | null = null;
  #width = 0;
  #fresh: HTMLElement[] = [];
  #anchor: Anchor | null = null;

  /** Where each row begins; one more at the end: the whole height. */
  readonly offsets: readonly number[] = $derived.by(() => {
    void this.#measured;
    const heights = this.#rows
      .ids()
      .map((id, index) => this.#heights.get(id) ?? this.#guess(index));
    return offsetsOf(heights);
  });

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  get total(): number {
    return this.offsets.at(-1) ?? 0;
  }

  // --- attachments

  /** The element that scrolls. */
  readonly scroller = (node: HTMLElement): (() => void) => {
    this.#scroller = node;
    this.#width = node.clientWidth;
    this.viewport = node.clientHeight;
    const observer = new ResizeObserver(() => this.#reshaped(node));
    observer.observe(node);
    return () => {
      observer.disconnect();
      this.#sizes.disconnect();
      this.#scroller = null;
    };
  };

  /** A row: measured when it appears and whenever it changes. */
  readonly row = (node: HTMLElement): (() => void) => {
    this.#fresh.push(node);
    const frame = requestAnimationFrame(() => this.#sizes.observe(node));
    return () => {
      cancelAnimationFrame(frame);
      this.#sizes.unobserve(node);
    };
  };

  // --- moving

  /** To the end, and on with it. */
  toEnd(): void {
    this.#setFollowing(true);
    this.#put(this.#scroller?.scrollHeight ?? 0);
  }

  /** Stay here, whatever is written below. */
  letGo(): void {
    this.#setFollowing(false);
  }

  /** The element's scroll event. */
  scrolled(): void {
    const node = this.#scroller;
    if (node !== null) {
      this.#follow.moved(node.scrollTop, node.scrollHeight - node.clientHeight - node.scrollTop);
      this.isFollowing = this.#follow.isOn;
      this.top = node.scrollTop;
    }
  }

  /** To be called, as an effect, after the document has changed. */
  settle(): void {
    const { total, viewport } = this;
    const nodes = this.#fresh;
    this.#fresh = [];
    if (this.#take(nodes.map(measure)) || total < 0 || viewport < 0) {
      return; // the rows move first, then it is called again
    }
    const index = this.#rows.ids().indexOf(this.#anchor?.id ?? "");
    if (this.isFollowing) {
      this.#put(this.#scroller?.scrollHeight ?? 0);
    } else if (this.#anchor !== null && index !== -1) {
      this.#put((this.offsets[index] ?? 0) + this.#anchor.out);
    }
    this.#anchor = null;
  }

  // --- inside

  #guess(index: number): number {
    return this.#rows.guess(index);
  }

  #setFollowing(isOn: boolean): void {
    this.isFollowing = this.#follow.isOn = isOn;
  }

  #put(top: number): void {
    const node = this.#scroller;
    if (node !== null) {
      if (Math.abs(top - node.scrollTop) > 0.5) {
        node.scrollTop = top;
      }
      this.top = node.scrollTop;
      this.#follow.put(node.scrollTop);
    }
  }

  /** Take in heights; true if any is new. What the reader looks at is remembered. */
  #take(found: readonly (readonly [string, number])[]): boolean {
    const before = this.#looksAt();
    if (before === null || !this.#heights.take(found)) {
      return false;
    }
    this.#anchor ??= before;
    this.#measured += 1;
    return true;
  }

  /** The first visible row whose height is known: where the others begin is guessed. */
  #looksAt(): Anchor | null {
    if (this.#scroller === null) {
      return null;
    }
    const { offsets } = this;
    const ids = this.#rows.ids();
    const top = this.#scroller.scrollTop;
    const first = indexAt(offsets, top);
    const last = indexAt(offsets, top + this.viewport);
    const known = ids.findIndex((id, at) => at >= first && this.#heights.get(id) !== undefined);
    const index = known === -1 || known > last ? first : known;
    return { id: ids[index] ?? "", out: top - (offsets[index] ?? 0) };
  }

  #resized(entries: readonly ResizeObserverEntry[]): void {
    const found = entries.map((entry): [string, number] => [
      (entry.target as HTMLElement).dataset["id"] ?? "",
      entry.borderBoxSize[0]?.blockSize ?? 0,
    ]);
    this.#take(found.filter(([, height]) => height > 0));
    // Before this frame is painted.
    flushSync();
  }

  #reshaped(node: HTMLElement): void {
    if (node.clientWidth !== this.#width) {
      // Lines break elsewhere now: what isn't in the document is guessed again.
      this.#width = node.clientWidth;
      this.#heights.clear();
      this.#take([...node.querySelectorAll<HTMLElement>("[data-id]")].map(measure));
    }
    this.viewport = node.clientHeight;
  }
}

function measure(node: HTMLElement): [string, number] {
  return [node.dataset["id"] ?? "", node.getBoundingClientRect().height];
}
