/** The list of chats by date, as flat entries for a list that draws only what is visible. */
import type { ConversationOut } from "../../types/api";

export type GroupName = "today" | "yesterday" | "week" | "earlier";
export type Entry =
  | { readonly kind: "heading"; readonly key: string; readonly group: GroupName }
  | { readonly kind: "row"; readonly key: string; readonly row: ConversationOut };

const DAY_MS = 86_400_000;
const WEEK_DAYS = 7;

/** Which group an instant is in, by the days of the reader's own calendar. */
export function groupOf(iso: string, now: Date): GroupName {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const time = new Date(iso).getTime();
  if (time >= midnight) {
    return "today";
  }
  // A day is an hour longer or shorter twice a year; the calendar knows.
  const yesterday = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1).getTime();
  if (time >= yesterday) {
    return "yesterday";
  }
  return time >= midnight - WEEK_DAYS * DAY_MS ? "week" : "earlier";
}

/** Rows in their order with a heading before each group. */
export function entriesOf(rows: readonly ConversationOut[], now: Date): Entry[] {
  const entries: Entry[] = [];
  let last: GroupName | null = null;
  for (const row of rows) {
    const group = groupOf(row.updated_at, now);
    if (group !== last) {
      entries.push({ kind: "heading", key: `group ${group} ${row.id}`, group });
      last = group;
    }
    entries.push({ kind: "row", key: row.id, row });
  }
  return entries;
}
