import { part as partOf } from "../domain/parts";
import { model } from "../domain/samples";
import type { ConversationOut, MeOut, MessageOut, PartOut, TurnOut } from "../types/api";
import type { LiveAnswer, ShownMessage } from "../types/stores";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

export const ago = (ms: number) => new Date(Date.now() - ms).toISOString();

export const part = (text: string, type: PartOut["type"] = "text") => partOf(type, { text });

export const me = (changes: Partial<MeOut> = {}): MeOut => ({
  username: "alice",
  is_staff: true,
  theme: "system",
  language: "",
  has_only_starter_model: false,
  models: [
    model("qwen3-8b-instruct", {
      is_default: true,
      title: "Qwen3 8B Instruct",
      quantization: "Q4_K_M",
      max_context: 32_768,
      capabilities: ["tools", "reasoning"],
    }),
    model("gemma-3-12b", {
      state: "unloaded",
      reason: "model gemma-3-12b isn't in memory; the next request has it loaded",
      aliases: ["gpt-small"],
      capabilities: ["tools"],
    }),
  ],
  limits: { frame_bytes: 1_048_576, open_conversations: 16, text_chars: 200_000, title_chars: 200 },
  ...changes,
});

const TITLES = [
  "Moving a bread recipe to metric",
  "Why is the sky dark at night?",
  "SQL: newest row of each group",
  "A letter to the landlord about the heating",
  "<img src=x onerror=alert(1)> as a title",
  "Names for a small sailing boat",
  "Unterschied zwischen „scheinbar“ und „anscheinend“",
  "Packing list for a week in the mountains with two children and a dog",
  "Regex for ISO dates",
  "Ideas for the 70th birthday",
];

export function conversations(count: number): ConversationOut[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `c${String(index)}`,
    title: TITLES[index % TITLES.length] ?? "",
    title_is_custom: false,
    model_name: "",
    current_leaf_id: null,
    revision: 1,
    created_at: ago(index * 9 * 60 * MINUTE_MS),
    updated_at: ago(index < 3 ? index * MINUTE_MS : (index - 2) * 0.7 * DAY_MS),
    is_owner: true,
    can_write: true,
    is_running: index === 2,
  }));
}

export function shown(
  id: string,
  role: MessageOut["role"],
  text: string,
  changes: Partial<ShownMessage> = {},
  facts: Partial<MessageOut> = {},
): ShownMessage {
  const parts = text === "" ? [] : [part(text)];
  const isAnswer = role === "assistant";
  return {
    id,
    role,
    state: "done",
    parts,
    message: {
      id,
      parent_id: null,
      number: 1,
      revision: 1,
      role,
      state: "done",
      parts,
      created_at: ago(MINUTE_MS),
      edited_at: null,
      model_name: isAnswer ? "qwen3-8b-instruct" : "",
      finish_reason: "",
      error_code: "",
      error_message: "",
      prompt_tokens: isAnswer ? 812 : 0,
      completion_tokens: isAnswer ? 214 : 0,
      cached_tokens: isAnswer ? 640 : 0,
      is_deleted: false,
      ...facts,
    },
    siblings: [id],
    index: 0,
    turn: null,
    live: null,
    ...changes,
  };
}

export const turn = (changes: Partial<TurnOut> = {}): TurnOut => ({
  id: "t1",
  user_message_id: "m1",
  answer_id: "m2",
  revision: 1,
  state: "failed",
  is_stopping: false,
  can_retry: true,
  generation_id: "g1",
  model_name: "",
  attempt: 1,
  error_code: "failed",
  created_at: ago(MINUTE_MS),
  ended_at: null,
  is_deleted: false,
  ...changes,
});

export const live = (changes: Partial<LiveAnswer>): LiveAnswer => ({
  phase: "generating",
  place: null,
  prefill: null,
  ...changes,
});

export const LONG = `The shortest way is a **window function**. It numbers the rows of each group, newest first, and you keep number one.

## The query

\`\`\`sql
SELECT customer_id, ordered_at, total
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY customer_id ORDER BY ordered_at DESC, id DESC
  ) AS place
  FROM orders  -- ties are broken by id
) AS ranked
WHERE place = 1;
\`\`\`

A few things decide whether it is fast:

1. An index on \`(customer_id, ordered_at DESC, id DESC)\`.
2. How many groups there are:
   - few, large groups: a lateral join reads only one row of each
   - many small ones: the window is fine
3. Whether the planner's statistics are up to date.

### Ways compared

| Way | Reads | Works in | Remark |
|---|---|---|---|
| Window function | all rows | everywhere | easy to extend to the newest *n* rows |
| Lateral join | one row a group | PostgreSQL, MySQL 8 | needs the list of groups |
| \`DISTINCT ON\` | all rows | PostgreSQL | shortest to write |

> Measure with your own data; a thousand rows lie to everybody.

More is in the [manual](https://www.postgresql.org/docs/current/tutorial-window.html).`;
