import type { KeyIn, KeyOut } from "../../types/api";

export type Scope = NonNullable<KeyIn["scopes"]>[number];

/** What people may make keys for, the usual first. */
export const SCOPES: readonly Scope[] = ["inference", "embeddings", "models:read", "tools"];

const DAY_MS = 86_400_000;

/** When a key made now ends; null for `days` = 0: never. */
export function expiryOf(days: number, now: Date): string | null {
  return days === 0 ? null : new Date(now.getTime() + days * DAY_MS).toISOString();
}

export type KeyState = "living" | "expired" | "revoked";

export function stateOf(key: KeyOut, now: Date): KeyState {
  if (key.revoked_at !== null) {
    return "revoked";
  }
  const hasEnded = key.expires_at !== null && new Date(key.expires_at).getTime() <= now.getTime();
  return hasEnded ? "expired" : "living";
}
