/** Names that nobody else makes. crypto.randomUUID is missing on plain http; this isn't. */

const KEY_BYTES = 16;

/** 32 hexadecimal digits. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
