import { expect, test } from "vitest";

import type { ConversationOut } from "../../types/api";
import { entriesOf, groupOf } from "./groups";

const NOW = new Date(2026, 10, 30, 9, 0);
const at = (day: number, hour: number) => new Date(2026, 10, day, hour).toISOString();

test.each([
  [at(30, 0), "today"],
  [at(30, 23), "today"],
  [at(29, 23), "yesterday"],
  [at(29, 0), "yesterday"],
  [at(28, 23), "week"],
  [at(23, 0), "week"],
  [at(22, 23), "earlier"],
])("%s is in %s", (iso, group) => expect(groupOf(iso, NOW)).toBe(group));

test("each group has one heading", () => {
  const row = (id: string, updated_at: string) => ({ id, updated_at }) as ConversationOut;
  const entries = entriesOf([row("a", at(30, 8)), row("b", at(30, 7)), row("c", at(2, 7))], NOW);
  expect(entries.map((e) => (e.kind === "row" ? e.row.id : e.group))).toEqual([
    "today",
    "a",
    "b",
    "earlier",
    "c",
  ]);
});
