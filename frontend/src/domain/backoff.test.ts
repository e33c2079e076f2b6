import { expect, it } from "vitest";

import { LONGEST_WAIT_MS, waitMs } from "./backoff";

it("doubles up to its bound", () => {
  const waits = [1, 2, 3, 7, 8, 1000].map((numFailures) => waitMs(numFailures, 1));
  expect(waits).toEqual([500, 1000, 2000, LONGEST_WAIT_MS, LONGEST_WAIT_MS, LONGEST_WAIT_MS]);
  expect(waitMs(0, 1)).toBe(500);
});

it("is spread over half of it", () => {
  expect(waitMs(3, 0)).toBe(1000);
  expect(waitMs(3, 0.5)).toBe(1500);
});
