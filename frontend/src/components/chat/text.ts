import type { PartOut } from "../../types/api";
import { isComposing } from "../keys";

/** All text of a message, or its reasoning. */
export function textOf(parts: readonly PartOut[], type: "text" | "reasoning" = "text"): string {
  return parts
    .filter((part) => part.type === type)
    .map((part) => part.text)
    .join("\n\n");
}

/** By how many characters a text is longer than `limit`, counted as the server does. */
export function excessOf(text: string, limit: number): number {
  // Never more code points than units, so the slow count is only for what may be too long.
  return text.length <= limit ? 0 : Math.max(0, [...text].length - limit);
}

/** Whether a key in a message field sends it. While an input method composes, Enter is its own. */
export function isSendKey(event: KeyboardEvent, isTouch: boolean): boolean {
  if (event.key !== "Enter" || isComposing(event) || event.shiftKey || event.altKey) {
    return false;
  }
  // On a touch keyboard there is no Shift+Enter; there the button sends.
  return event.ctrlKey || event.metaKey || !isTouch;
}
