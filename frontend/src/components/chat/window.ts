/** Which rows of a long list are in the document: pure arithmetic on heights in CSS pixels. */

/** `first` up to and without `last`. */
export interface Span {
  readonly first: number;
  readonly last: number;
}

/** Where each row begins; one more at the end: the whole height. */
export function offsetsOf(heights: readonly number[]): number[] {
  const offsets = [0];
  let sum = 0;
  for (const height of heights) {
    sum += height;
    offsets.push(sum);
  }
  return offsets;
}

/** The row at `y`; the nearest one when `y` is outside. 0 for an empty list. */
export function indexAt(offsets: readonly number[], y: number): number {
  let low = 0;
  let high = Math.max(0, offsets.length - 2);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((offsets[middle] ?? 0) <= y) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/** The rows that touch the window from `top`, `height` high, and `extra` around it. */
export function windowOf(
  offsets: readonly number[],
  top: number,
  height: number,
  extra: number,
): Span {
  const count = offsets.length - 1;
  if (count <= 0) {
    return { first: 0, last: 0 };
  }
  return {
    first: indexAt(offsets, top - extra),
    last: Math.min(count, indexAt(offsets, top + height + extra) + 1),
  };
}

/** The indices of a span and those kept besides (with focus, being edited), in order. */
export function indicesOf(span: Span, kept: readonly number[]): number[] {
  const indices = new Set(kept.filter((index) => index >= 0));
  for (let index = span.first; index < span.last; index += 1) {
    indices.add(index);
  }
  return [...indices].sort((a, b) => a - b);
}

const LINE_PX = 26;
const LINE_CHARS = 72;
const FRAME_PX = 64;

/** A first guess at a message's height, until it is measured. */
export function guessHeight(numChars: number): number {
  return FRAME_PX + LINE_PX * Math.max(1, Math.ceil(numChars / LINE_CHARS));
}

/** Measured heights by row; a row that isn't measured yet has none. */
export class Heights {
  readonly #byId = new Map<string, number>();

  get(id: string): number | undefined {
    return this.#byId.get(id);
  }

  /** Take in what differs; true if anything does. */
  take(found: readonly (readonly [string, number])[]): boolean {
    const changed = found.filter(([id, height]) => Math.abs((this.get(id) ?? 0) - height) > 0.5);
    for (const [id, height] of changed) {
      this.#byId.set(id, height);
    }
    return changed.length > 0;
  }

  clear(): void {
    this.#byId.clear();
  }
}
