import type { Catalogue } from "../../i18n/index.svelte";
import { errorLine } from "../../i18n/server";
import type { ErrorOut } from "../../types/api";

/** What a store threw, if it is a refusal of the server. */
export function refusalOf(error: unknown): ErrorOut | null {
  return typeof error === "object" && error !== null && "message" in error && "code" in error
    ? (error as ErrorOut)
    : null;
}

/** A sentence for the person. What was wrong with a field the server says in their language. */
export function messageOf(error: unknown, words: Catalogue): string {
  const refusal = refusalOf(error);
  if (refusal === null) {
    return words.app.failed;
  }
  return refusal.param === null ? errorLine(words, refusal) : refusal.message;
}
