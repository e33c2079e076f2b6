import fc from "fast-check";
import { expect, test } from "vitest";

import { indexAt, indicesOf, offsetsOf, windowOf } from "./window";

const heights = fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 60 });

test("an empty list has no rows", () => {
  expect(windowOf(offsetsOf([]), 0, 500, 100)).toEqual({ first: 0, last: 0 });
  expect(indexAt(offsetsOf([]), 50)).toBe(0);
});

test("the row at a place is the one whose span holds it", () => {
  const offsets = offsetsOf([10, 20, 30]);
  expect([-5, 0, 9, 10, 29, 30, 59, 60, 900].map((y) => indexAt(offsets, y))).toEqual([
    0, 0, 0, 1, 1, 2, 2, 2, 2,
  ]);
});

test("nothing that is visible is left out, and little else is in", () => {
  fc.assert(
    fc.property(heights, fc.integer({ min: 0, max: 9000 }), (rows, start) => {
      const offsets = offsetsOf(rows);
      const total = offsets.at(-1) ?? 0;
      const top = Math.min(start, total);
      const { first, last } = windowOf(offsets, top, 300, 50);
      rows.forEach((height, index) => {
        const begin = offsets[index] ?? 0;
        const isVisible = begin < top + 300 && begin + height > top;
        const isFar = begin > top + 350 || begin + height < top - 50;
        const isIn = index >= first && index < last;
        expect(isVisible && !isIn).toBe(false);
        expect(isFar && isIn && last - first > 1).toBe(false);
      });
    }),
  );
});

test("kept rows come in their place, once", () => {
  expect(indicesOf({ first: 3, last: 6 }, [1, 4, -1, 9])).toEqual([1, 3, 4, 5, 9]);
});
