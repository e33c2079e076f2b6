import { expect, it, vi } from "vitest";

import { newKey } from "./keys";

it("makes names the server takes, without randomUUID", () => {
  vi.stubGlobal("crypto", { getRandomValues: crypto.getRandomValues.bind(crypto) });
  const keys = Array.from({ length: 100 }, () => newKey());
  expect(new Set(keys).size).toBe(100);
  expect(keys.every((key) => /^[0-9a-f]{32}$/.test(key))).toBe(true);
  vi.unstubAllGlobals();
});
