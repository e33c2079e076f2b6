/** The list of conversations, made of `feed` frames and pages. Pure. */
import type { ConversationOut, ConversationPage, FeedFrame } from "../types/api";

export interface List {
  /** Of the feed; null: nothing has come yet. */
  readonly revision: number | null;
  readonly rows: ReadonlyMap<string, ConversationOut>;
  /** Cursor of the next page; null: all are here. */
  readonly next: string | null;
  /** The last row of the last page: older ones that changed wait until their page is loaded. */
  readonly end: ConversationOut | null;
  /** Gone since the last reset: a page that was on its way doesn't bring them back. */
  readonly gone: ReadonlySet<string>;
}

export const NO_LIST: List = {
  revision: null,
  rows: new Map(),
  next: null,
  end: null,
  gone: new Set(),
};

export function listTake(list: List, frame: FeedFrame): List {
  if (frame.reset) {
    const rows = new Map(frame.conversations.map((row) => [row.id, row]));
    return {
      revision: frame.revision,
      rows,
      ...pageEnd(frame.conversations, frame.next),
      gone: new Set(),
    };
  }
  if (list.revision !== null && frame.revision < list.revision) {
    return list;
  }
  const rows = merged(list.rows, frame.conversations);
  const gone = new Set(list.gone);
  for (const { id } of frame.conversations) {
    gone.delete(id);
  }
  for (const id of frame.gone) {
    gone.add(id);
    rows.delete(id);
  }
  return { ...list, revision: frame.revision, rows, gone };
}

/** Take the page in that `next` named. */
export function listTakePage(list: List, page: ConversationPage): List {
  const fresh = page.conversations.filter((row) => !list.gone.has(row.id));
  const { next, end } = pageEnd(page.conversations, page.next);
  return { ...list, rows: merged(list.rows, fresh), next, end };
}

function pageEnd(
  page: readonly ConversationOut[],
  next: string | null,
): Pick<List, "next" | "end"> {
  return { next, end: next === null ? null : (page.at(-1) ?? null) };
}

function merged(
  known: ReadonlyMap<string, ConversationOut>,
  fresh: readonly ConversationOut[],
): Map<string, ConversationOut> {
  const rows = new Map(known);
  for (const row of fresh) {
    const before = rows.get(row.id);
    if (before === undefined || row.revision >= before.revision) {
      rows.set(row.id, row);
    }
  }
  return rows;
}

/** What is shown, the newest activity first. */
export function listShown(list: List): readonly ConversationOut[] {
  const { end } = list;
  return [...list.rows.values()]
    .filter((row) => end === null || compare(row, end) <= 0)
    .sort(compare);
}

/** By activity, the newest first, as the server's pages are. */
function compare(a: ConversationOut, b: ConversationOut): number {
  return (
    timeOf(b.updated_at) - timeOf(a.updated_at) ||
    (b.updated_at < a.updated_at ? -1 : b.updated_at > a.updated_at ? 1 : 0) ||
    (b.id < a.id ? -1 : b.id > a.id ? 1 : 0)
  );
}

/** Milliseconds; what is finer than that is compared as text. */
function timeOf(instant: string): number {
  return Date.parse(instant) || 0;
}
