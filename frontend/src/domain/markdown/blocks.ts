/** A top-level block of a text. `key` stays the same while the text grows. */
export type Block =
  | { readonly key: string; readonly kind: "html"; readonly html: string }
  | {
      readonly key: string;
      readonly kind: "code";
      readonly language: string;
      readonly code: string;
      /** The closing fence hasn't come yet. */
      readonly isOpen: boolean;
    };

/** The blocks of a text that grows at its end: only the last ones change. */
export class MarkdownBlocks {
  blocks: readonly Block[] = [];

  /** Take the text as it is now. `isComplete`: no more will come. Returns `blocks`. */
  update(text: string, isComplete: boolean): readonly Block[] {
    const html = `<p>${text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</p>`;
    this.blocks = isComplete || text !== "" ? [{ key: "0", kind: "html", html }] : [];
    return this.blocks;
  }
}

/** The blocks of a text that is whole. */
export function splitBlocks(text: string): readonly Block[] {
  return new MarkdownBlocks().update(text, true);
}
