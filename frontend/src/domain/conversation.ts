/** What a tab has of a conversation, made of `conversation` frames. Pure.

    Rows carry the revision they changed in, so taking a frame twice or late does no harm: a row is
    never replaced by an older one. Deleted rows are kept, empty, for the same reason. */
import type { ConversationFrame, ConversationOut, MessageOut, TurnOut } from "../types/api";

export interface Rows {
  readonly conversation: ConversationOut | null;
  /** Everything up to this revision is here; null: nothing is. */
  readonly revision: number | null;
  readonly messages: ReadonlyMap<string, MessageOut>;
  readonly turns: ReadonlyMap<string, TurnOut>;
  /** Frames that say `has_more`, until the last one of them has come. */
  readonly pending: readonly ConversationFrame[];
}

export const NO_ROWS: Rows = {
  conversation: null,
  revision: null,
  messages: new Map(),
  turns: new Map(),
  pending: [],
};

/** Take a frame in; the rows of several that belong together change with the last one. */
export function rowsTake(rows: Rows, frame: ConversationFrame): Rows {
  const frames = frame.reset ? [frame] : [...rows.pending, frame];
  if (frame.has_more) {
    return { ...rows, pending: frames };
  }
  const isReset = frames[0]?.reset === true;
  if (!isReset && rows.revision === null) {
    return { ...rows, pending: [] }; // changes of something that isn't here
  }
  const messages = frames.flatMap((each) => each.messages);
  const turns = frames.flatMap((each) => each.turns);
  return {
    conversation: isReset ? frame.conversation : newer(rows.conversation, frame.conversation),
    revision: isReset ? frame.revision : Math.max(rows.revision ?? 0, frame.revision),
    messages: merged(rows.messages, messages, isReset ? null : rows.revision),
    turns: merged(rows.turns, turns, isReset ? null : rows.revision),
    pending: [],
  };
}

/** The connection is gone: what was begun will be sent anew. */
export function rowsInterrupted(rows: Rows): Rows {
  return rows.pending.length === 0 ? rows : { ...rows, pending: [] };
}

interface Row {
  readonly id: string;
  readonly revision: number;
}

/** `fresh` over `known`, which is complete up to revision `since`; null: `fresh` alone. What didn't
    change stays the same object. */
function merged<T extends Row>(
  known: ReadonlyMap<string, T>,
  fresh: readonly T[],
  since: number | null,
): ReadonlyMap<string, T> {
  if (since !== null && fresh.length === 0) {
    return known;
  }
  const rows = new Map<string, T>(since === null ? [] : known);
  for (const row of fresh) {
    // One that isn't known though all of its revision are was deleted since.
    const before = rows.get(row.id)?.revision ?? since ?? -1;
    if (row.revision > before) {
      const same = known.get(row.id);
      rows.set(row.id, same?.revision === row.revision ? same : row);
    }
  }
  return rows;
}

function newer(known: ConversationOut | null, fresh: ConversationOut): ConversationOut {
  return known !== null && known.revision > fresh.revision ? known : fresh;
}
