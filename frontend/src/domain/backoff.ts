/** How long to wait before trying again. Pure. */

const FIRST_WAIT_MS = 500;
export const LONGEST_WAIT_MS = 30_000;
const MAX_DOUBLINGS = 10;

/** After `numFailures` in a row: doubled each time, bounded, and not at the same moment as all the
    others that lost the same server. `random`: 0 to 1. */
export function waitMs(numFailures: number, random: number): number {
  const doublings = Math.min(Math.max(numFailures - 1, 0), MAX_DOUBLINGS);
  const longest = Math.min(FIRST_WAIT_MS * 2 ** doublings, LONGEST_WAIT_MS);
  return longest * (0.5 + random / 2);
}
