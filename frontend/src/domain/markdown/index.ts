/** Markdown of models and people as blocks of safe HTML; what components may use of this folder. */
export { highlight } from "./highlight";
export { MarkdownBlocks, splitBlocks, type Block } from "./blocks";
