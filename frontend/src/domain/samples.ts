/** Rows and frames for tests. */
import type {
  ConversationFrame,
  ConversationOut,
  FeedFrame,
  MeOut,
  MessageOut,
  ModelOut,
  PartOut,
  StreamFrame,
  TurnOut,
} from "../types/api";
import { part } from "./parts";

const AT = "2026-11-30T10:00:00Z";

export function text(content: string, type: PartOut["type"] = "text"): PartOut {
  return part(type, { text: content });
}

export function message(id: string, fields: Partial<MessageOut> = {}): MessageOut {
  return {
    id,
    parent_id: null,
    number: 1,
    revision: 1,
    role: "user",
    state: "done",
    parts: [text(`text of ${id}`)],
    created_at: AT,
    edited_at: null,
    model_name: "",
    finish_reason: "",
    error_code: "",
    error_message: "",
    prompt_tokens: 0,
    completion_tokens: 0,
    cached_tokens: 0,
    is_deleted: false,
    ...fields,
  };
}

export function turn(id: string, fields: Partial<TurnOut> = {}): TurnOut {
  return {
    id,
    user_message_id: "u1",
    answer_id: "a1",
    revision: 1,
    state: "running",
    is_stopping: false,
    can_retry: false,
    generation_id: "g1",
    model_name: "",
    attempt: 1,
    error_code: "",
    created_at: AT,
    ended_at: null,
    is_deleted: false,
    ...fields,
  };
}

export function conversation(id: string, fields: Partial<ConversationOut> = {}): ConversationOut {
  return {
    id,
    title: `Title of ${id}`,
    title_is_custom: false,
    model_name: "",
    current_leaf_id: null,
    revision: 1,
    created_at: AT,
    updated_at: AT,
    is_owner: true,
    can_write: true,
    is_running: false,
    ...fields,
  };
}

export function state(
  of: ConversationOut,
  fields: Partial<ConversationFrame> = {},
): ConversationFrame {
  return {
    type: "conversation",
    n: 0,
    conversation: of,
    revision: of.revision,
    messages: [],
    turns: [],
    has_more: false,
    reset: true,
    ...fields,
  };
}

export function stream(cursor: string, fields: Partial<StreamFrame> = {}): StreamFrame {
  return {
    type: "stream",
    n: 0,
    conversation_id: "c1",
    turn_id: "t1",
    generation_id: "g1",
    cursor,
    reset: false,
    deltas: [],
    place: null,
    prefill: null,
    end: null,
    ...fields,
  };
}

export function feed(revision: number, fields: Partial<FeedFrame> = {}): FeedFrame {
  return {
    type: "feed",
    n: 0,
    revision,
    reset: false,
    conversations: [],
    gone: [],
    next: null,
    ...fields,
  };
}

export function model(name: string, fields: Partial<ModelOut> = {}): ModelOut {
  return {
    name,
    title: "",
    aliases: [],
    tags: [],
    quantization: "",
    capabilities: [],
    is_default: false,
    is_ready: fields.state === undefined || fields.state === "loaded",
    state: "loaded",
    reason: "",
    load_progress: null,
    max_context: 8192,
    ...fields,
  };
}

export const ME: MeOut = {
  username: "alice",
  is_staff: false,
  theme: "system",
  language: "",
  models: [],
  has_only_starter_model: false,
  limits: {
    text_chars: 524_288,
    title_chars: 200,
    open_conversations: 3,
    frame_bytes: 1_048_576,
  },
};
