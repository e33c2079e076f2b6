import type { ConversationOut, ErrorOut, KeyIn, KeyOut, MeOut, PreferencesIn } from "../types/api";
import type {
  Account,
  App,
  Chat,
  ConnectionState,
  ConversationList,
  Outgoing,
  ShownMessage,
} from "../types/stores";
import { ago, conversations, me, shown } from "./fixtures";

const none = () => Promise.resolve();

export class FakeChat implements Chat {
  id = $state<string | null>(null);
  conversation = $state<ConversationOut | null>(null);
  isLoading = $state(false);
  isAbsent = $state(false);
  path = $state.raw<readonly ShownMessage[]>([]);
  outgoing = $state<Outgoing | null>(null);
  isRunning = $state(false);
  canWrite = $state(true);
  modelName = $state("");
  draft = $state("");
  error = $state<ErrorOut | null>(null);
  /** What was called, for tests. */
  readonly calls: unknown[][] = [];

  send(text: string): Promise<void> {
    this.calls.push(["send", text]);
    const id = String(this.path.length);
    this.path = [...this.path, shown(`u${id}`, "user", text), shown(`a${id}`, "assistant", text)];
    return none();
  }
  sendAgain = () => this.#note("sendAgain");
  takeBack = () => void this.#note("takeBack");
  stop = () => this.#note("stop");
  answerNow(id: string): Promise<boolean> {
    this.calls.push(["answerNow", id]);
    return Promise.resolve(this.error === null);
  }
  retry = (id: string) => this.#note("retry", id);
  regenerate = (id: string, modelName?: string) =>
    this.#note("regenerate", id, ...(modelName === undefined ? [] : [modelName]));
  edit(id: string, text: string): Promise<boolean> {
    this.calls.push(["edit", id, text]);
    return Promise.resolve(this.error === null);
  }
  remove = (id: string) => this.#note("remove", id);
  select = (id: string) => this.#note("select", id);
  dismissError(): void {
    this.error = null;
  }

  #note(...call: unknown[]): Promise<void> {
    this.calls.push(call);
    return none();
  }
}

class FakeList implements ConversationList {
  rows = $state.raw<readonly ConversationOut[]>(conversations(0));
  isLoaded = $state(true);
  hasMore = $state(false);
  undo = $state<{ id: string; title: string } | null>(null);
  error = $state<ErrorOut | null>(null);
  isUndoHeld = false;
  #removed: readonly ConversationOut[] = [];

  loadMore = none;
  rename(id: string, title: string): Promise<void> {
    this.rows = this.rows.map((row) => (row.id === id ? { ...row, title } : row));
    return none();
  }
  remove(id: string): Promise<void> {
    this.#removed = this.rows;
    this.undo = { id, title: this.rows.find((row) => row.id === id)?.title ?? "" };
    this.rows = this.rows.filter((row) => row.id !== id);
    return none();
  }
  undoRemove(): Promise<void> {
    this.rows = this.#removed;
    this.undo = null;
    return none();
  }
  holdUndo(isHeld: boolean): void {
    this.isUndoHeld = isHeld;
  }
  dismissUndo(): void {
    this.undo = null;
  }
  dismissError(): void {
    this.error = null;
  }
}

const key = (id: number, name: string, changes: Partial<KeyOut> = {}): KeyOut => ({
  id,
  name,
  prefix: `lw-${String(id)}aB3x`,
  scopes: ["inference"],
  models: [],
  created_at: ago(9e8),
  expires_at: null,
  last_used_at: null,
  revoked_at: null,
  ...changes,
});

class FakeAccount implements Account {
  me = $state.raw<MeOut>(me());
  #keys = [
    key(3, "laptop", { last_used_at: ago(4e6) }),
    key(2, "home automation", { expires_at: ago(-4e9) }),
    key(1, "old phone", { revoked_at: ago(8e8) }),
  ];

  get models() {
    return this.me.models;
  }
  setPreferences({ theme, language }: PreferencesIn): Promise<void> {
    this.me = { ...this.me, theme: theme ?? this.me.theme, language: language ?? this.me.language };
    return none();
  }
  keys = () => Promise.resolve({ keys: this.#keys, max_keys: 20 });
  createKey({ name, ...wanted }: KeyIn) {
    const made = key(this.#keys.length + 1, name, { ...wanted, created_at: ago(0) });
    this.#keys = [made, ...this.#keys];
    return Promise.resolve({ key: made, secret: "lw-4aB3x-9Tq7vKpWm2sYc8RfHd1LnZgXu5EoJb0Ai6" });
  }
  revokeKey(id: number): Promise<void> {
    this.#keys = this.#keys.map((one) => (one.id === id ? { ...one, revoked_at: ago(0) } : one));
    return none();
  }
  changePassword(current: string): Promise<void> {
    const refused = { code: "invalid", message: "This isn't your password.", param: "current" };
    return current === "wrong" ? Promise.reject(refused as unknown as Error) : none();
  }
  signOut(): void {
    return;
  }
  sessions = () =>
    Promise.resolve({
      sessions: [
        { id: 1, is_current: true, address: "192.168.1.20", agent: navigator.userAgent },
        {
          id: 2,
          is_current: false,
          address: "192.168.1.31",
          agent: "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Safari/604.1",
        },
      ].map((session) => ({ ...session, created_at: ago(4e8), last_seen_at: ago(7e6) })),
    });
  endSession = none;
  endOtherSessions = () => Promise.resolve(1);
}

/** The stores without a server. */
export class FakeApp implements App {
  connection = $state<ConnectionState>("live");
  retryAt = $state<number | null>(null);
  readonly account = new FakeAccount();
  readonly conversations = new FakeList();
  readonly chat = new FakeChat();

  open(conversationId: string | null): void {
    this.chat.id = conversationId;
    this.chat.conversation =
      this.conversations.rows.find((row) => row.id === conversationId) ?? null;
    if (conversationId === null) {
      this.chat.path = [];
    }
  }
  reconnectNow(): void {
    this.retryAt = null;
  }
}
