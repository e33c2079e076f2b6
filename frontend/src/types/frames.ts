/** What goes over the live connection, both ways (conversations/edge/live/frames.py). */
import type {
  Ack,
  Act,
  Close,
  ClosedFrame,
  ConversationFrame,
  ErrorFrame,
  FeedFrame,
  Hello,
  ModelsFrame,
  Open,
  Ping,
  PongFrame,
  ReplyFrame,
  StreamFrame,
} from "./api";

export type ClientFrame = Hello | Open | Close | Ack | Act | Ping;

export type ServerFrame =
  | FeedFrame
  | ConversationFrame
  | StreamFrame
  | ClosedFrame
  | ModelsFrame
  | ReplyFrame
  | ErrorFrame
  | PongFrame;

/** The frame in `text`; null for one that isn't known. */
export function frameFrom(text: unknown): ServerFrame | null {
  try {
    const frame: unknown = JSON.parse(String(text));
    const isFrame = typeof frame === "object" && frame !== null && "type" in frame;
    return isFrame && TYPES.has(frame.type) ? (frame as ServerFrame) : null;
  } catch {
    return null;
  }
}

const TYPES = new Set<unknown>([
  "feed",
  "conversation",
  "stream",
  "closed",
  "models",
  "reply",
  "error",
  "pong",
]);
