/** Copying, also where browsers keep `navigator.clipboard` from pages: on plain http from another
    machine there is only the old way, which copies what is selected. */

/** Put `text` on the clipboard. `near`: an element a selection may be put beside; in a modal dialog
    only what is in it can be selected. False: this browser doesn't let us. */
export async function copyText(text: string, near: Element): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text, near);
  }
}

function copySelected(text: string, near: Element): boolean {
  const before = document.activeElement;
  const field = document.createElement("textarea");
  field.className = "visually-hidden";
  field.ariaHidden = "true";
  field.readOnly = true; // no keyboard comes up
  field.value = text;
  near.after(field);
  try {
    field.focus({ preventScroll: true });
    field.select();
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    field.remove();
    if (before instanceof HTMLElement) {
      before.focus({ preventScroll: true });
    }
  }
}
