/** What a key does that is pressed anywhere on the page. */
export type KeyAct = "new" | "stop" | "focus" | "help";

/** Whether an input method is at work: its Enter and Escape aren't the page's. Safari says so by
    the code only. */
export function isComposing(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229;
}

/** null: nothing, or what it does in a field. */
export function keyActOf(event: KeyboardEvent): KeyAct | null {
  const hasCommand = event.ctrlKey || event.metaKey;
  if (hasCommand && event.shiftKey && event.key.toLowerCase() === "o") {
    return "new";
  }
  if (event.key === "Escape") {
    return isComposing(event) ? null : "stop";
  }
  const isWriting =
    event.target instanceof Element && event.target.matches("input, textarea, select");
  if (isWriting || hasCommand || event.altKey) {
    return null;
  }
  return event.key === "/" ? "focus" : event.key === "?" ? "help" : null;
}
