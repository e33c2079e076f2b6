/** Set lengths in CSS pixels by script: the content policy refuses `style` attributes. */
export function place(
  lengths: Readonly<Partial<Record<"top" | "left" | "bottom" | "height" | "max-height", number>>>,
): (node: HTMLElement) => void {
  return (node) => {
    for (const [name, value] of Object.entries(lengths)) {
      node.style.setProperty(name, `${String(value)}px`);
    }
  };
}
