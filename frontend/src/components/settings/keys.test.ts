import { expect, test } from "vitest";

import type { KeyOut } from "../../types/api";
import { expiryOf, stateOf } from "./keys";

const NOW = new Date("2026-11-30T12:00:00Z");
const key = (changes: Partial<KeyOut>) =>
  ({ revoked_at: null, expires_at: null, ...changes }) as KeyOut;

test("a key without days never ends", () => {
  expect(expiryOf(0, NOW)).toBeNull();
  expect(expiryOf(30, NOW)).toBe("2026-12-30T12:00:00.000Z");
});

test("revoked counts before expired", () => {
  const past = "2026-11-29T00:00:00Z";
  expect(stateOf(key({}), NOW)).toBe("living");
  expect(stateOf(key({ expires_at: "2026-12-01T00:00:00Z" }), NOW)).toBe("living");
  expect(stateOf(key({ expires_at: past }), NOW)).toBe("expired");
  expect(stateOf(key({ expires_at: past, revoked_at: past }), NOW)).toBe("revoked");
});
