/** What the components may know of the stores: state to read and acts to call. The stores
    (src/stores) implement it, the components (src/components, src/routes) use nothing else. */
import type {
  ConversationOut,
  ErrorOut,
  KeyCreated,
  KeyIn,
  KeyList,
  MeOut,
  MessageOut,
  ModelOut,
  PartOut,
  Place,
  Prefill,
  PreferencesIn,
  SessionList,
  TurnOut,
} from "./api";

/** "fallback": live through SSE. "offline": until a try succeeds; `retryAt` (ms since the epoch) says
    when the next one begins, null: it is going on. */
export type ConnectionState = "connecting" | "live" | "fallback" | "offline";

/** "ending": the text is whole, being stored. */
export type Phase = "queued" | "prefill" | "generating" | "stopping" | "ending";

/** An answer that is being written. */
export interface LiveAnswer {
  readonly phase: Phase;
  readonly place: Place | null;
  readonly prefill: Prefill | null;
}

/** A message on the branch that is shown, oldest first. */
export interface ShownMessage {
  readonly id: string;
  readonly role: MessageOut["role"];
  readonly state: MessageOut["state"];
  /** The stored parts, or what has been streamed so far. */
  readonly parts: readonly PartOut[];
  readonly message: MessageOut;
  /** Ids of the alternatives in order, this one among them, and its place there. */
  readonly siblings: readonly string[];
  readonly index: number;
  /** The newest turn that answers with this message. */
  readonly turn: TurnOut | null;
  readonly live: LiveAnswer | null;
}

/** A message that was sent and isn't confirmed yet; it is shown at the end of the path. */
export interface Outgoing {
  readonly clientKey: string;
  readonly text: string;
  /** Set when it was refused; the text stays, to be sent again or taken back into the composer. */
  readonly error: ErrorOut | null;
}

export interface Chat {
  /** null: a chat that doesn't exist before its first message. */
  readonly id: string | null;
  readonly conversation: ConversationOut | null;
  readonly isLoading: boolean;
  readonly isAbsent: boolean;
  readonly path: readonly ShownMessage[];
  readonly outgoing: Outgoing | null;
  /** The answer at the end of the path is being written. */
  readonly isRunning: boolean;
  readonly canWrite: boolean;
  /** The model for the next message; "" is the default one. */
  modelName: string;
  /** Kept by conversation, across reloads. */
  draft: string;
  /** The last act that failed, until it is dismissed. */
  readonly error: ErrorOut | null;

  send(text: string): Promise<void>;
  sendAgain(): Promise<void>;
  takeBack(): void;
  stop(): Promise<void>;
  answerNow(turnId: string): Promise<boolean>;
  retry(turnId: string): Promise<void>;
  regenerate(messageId: string, modelName?: string): Promise<void>;
  /** A sibling with other text; of one's own message: it is answered too. False: it was refused. */
  edit(messageId: string, text: string, inPlace?: boolean): Promise<boolean>;
  remove(messageId: string): Promise<void>;
  /** Show the branch with this message. */
  select(messageId: string): Promise<void>;
  dismissError(): void;
}

export interface ConversationList {
  /** The newest activity first. */
  readonly rows: readonly ConversationOut[];
  readonly isLoaded: boolean;
  readonly hasMore: boolean;
  /** Deleted a moment ago; can be undone until it goes away by itself. */
  readonly undo: { readonly id: string; readonly title: string } | null;
  /** The last act that failed, until it is dismissed. */
  readonly error: ErrorOut | null;

  loadMore(): Promise<void>;
  rename(id: string, title: string): Promise<void>;
  remove(id: string): Promise<void>;
  undoRemove(): Promise<void>;
  /** It doesn't go away by itself while somebody is at it. */
  holdUndo(isHeld: boolean): void;
  dismissUndo(): void;
  dismissError(): void;
}

export interface Account {
  readonly me: MeOut;
  /** As they are now, the default one first. */
  readonly models: readonly ModelOut[];
  /** Stored on the server and shown at once. */
  setPreferences(preferences: PreferencesIn): Promise<void>;
  keys(): Promise<KeyList>;
  createKey(wanted: KeyIn): Promise<KeyCreated>;
  revokeKey(id: number): Promise<void>;
  /** Throws an `ErrorOut` whose `param` is "current" or "new". */
  changePassword(current: string, next: string): Promise<void>;
  /** Leaves the page. */
  signOut(): void;
  sessions(): Promise<SessionList>;
  endSession(id: number): Promise<void>;
  endOtherSessions(): Promise<number>;
}

export interface App {
  readonly account: Account;
  readonly connection: ConnectionState;
  readonly retryAt: number | null;
  readonly conversations: ConversationList;
  /** What is on the screen; `open(null)` starts a new one. */
  readonly chat: Chat;
  open(conversationId: string | null): void;
  reconnectNow(): void;
}
