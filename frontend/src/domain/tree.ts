/** The tree of a conversation's messages, as conversations/tree.py has it. Pure.

    Messages that are deleted aren't in it, nor what hangs below one that isn't there. */
import type { MessageOut } from "../types/api";

export type Messages = ReadonlyMap<string, MessageOut>;

export class Tree {
  readonly #messages: Messages;
  readonly #nodes = new Map<string, MessageOut>();
  readonly #children = new Map<string | null, string[]>();

  constructor(messages: Messages) {
    this.#messages = messages;
    const living = [...messages.values()].filter((message) => !message.is_deleted);
    for (const message of living.sort((a, b) => a.number - b.number)) {
      const { id, parent_id: parentId } = message;
      if (parentId === null || this.#nodes.has(parentId)) {
        this.#nodes.set(id, message);
        const siblings = this.#children.get(parentId);
        if (siblings === undefined) {
          this.#children.set(parentId, [id]);
        } else {
          siblings.push(id);
        }
      }
    }
  }

  has(id: string): boolean {
    return this.#nodes.has(id);
  }

  /** What follows a message, oldest first; the first messages for null. */
  children(id: string | null): readonly string[] {
    return this.#children.get(id) ?? [];
  }

  /** Messages with the same parent, itself included, oldest first. */
  siblings(id: string): readonly string[] {
    const node = this.#nodes.get(id);
    return node === undefined ? [] : this.children(node.parent_id);
  }

  /** From the first message to the leaf. A leaf that was deleted gives way to what stood before. */
  path(leafId: string | null): readonly MessageOut[] {
    const path: MessageOut[] = [];
    let at = leafId;
    for (let left = this.#messages.size; at !== null && left > 0; left -= 1) {
      const node = this.#nodes.get(at);
      if (node !== undefined) {
        path.push(node);
      }
      at = (node ?? this.#messages.get(at))?.parent_id ?? null;
    }
    return path.reverse();
  }

  /** Where a branch ends if one follows its newest messages. */
  leafBelow(id: string): string {
    let at = id;
    for (let next = this.children(at).at(-1); next !== undefined; next = this.children(at).at(-1)) {
      at = next;
    }
    return at;
  }
}
