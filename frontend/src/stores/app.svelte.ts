import { Acts } from "../services/acts";
import { Drafts } from "../services/drafts";
import { Live } from "../services/live";
import { goToLogin } from "../services/login";
import { Rest } from "../services/rest";
import type { MeOut, Open } from "../types/api";
import type { ServerFrame } from "../types/frames";
import type { App, ConnectionState } from "../types/stores";
import { AccountStore } from "./account.svelte";
import { ChatStore } from "./chat.svelte";
import { ConversationListStore } from "./conversations.svelte";

const RELOADED_AT = "llamaweb:reloaded-at";
const RELOAD_AGAIN_MS = 10 * 60_000;
const ID = /^[A-Za-z0-9-]{1,40}$/;

/** The app for one tab; it connects at once. */
export function createApp(boot: MeOut): App {
  const app = new AppStore(boot);
  app.start();
  return app;
}

export class AppStore implements App {
  connection: ConnectionState = $state("connecting");
  retryAt: number | null = $state(null);
  readonly account: AccountStore;
  readonly conversations: ConversationListStore;

  readonly #rest = new Rest(goToLogin);
  readonly #live: Live;
  readonly #acts: Acts;
  readonly #drafts: Drafts;
  readonly #maxOpen: number;
  /** Followed conversations, the one used last at the end. */
  readonly #chats = new Map<string, ChatStore>();
  /** The one that has no conversation yet. */
  #blank: ChatStore;
  #chat: ChatStore = $state.raw() as ChatStore;
  /** Left because it was removed; shown again when that is undone. */
  #leftId: string | null = null;
  #wasUp = false;

  constructor(boot: MeOut) {
    this.#live = new Live({
      hello: () => ({ type: "hello", feed: this.conversations.revision }),
      opens: () => this.#opens(),
      take: (frame) => this.#take(frame),
      interrupted: () => this.#each((chat) => chat.interrupted()),
      changed: (state, retryAt) => this.#connectionIs(state, retryAt),
      misunderstood: reloadOnce,
      checkSignedIn: () => this.#checkSignedIn(),
    });
    this.#acts = new Acts(this.#live, this.#rest);
    this.#drafts = new Drafts(boot.username);
    this.#maxOpen = Math.max(1, boot.limits.open_conversations);
    this.account = new AccountStore(boot, this.#rest);
    this.conversations = new ConversationListStore(this.#acts, this.#rest, {
      removed: (id) => this.#removed(id),
      restored: (id) => this.#restored(id),
    });
    this.#blank = this.#newChat(null);
    this.#chat = this.#blank;
  }

  get chat(): ChatStore {
    return this.#chat;
  }

  start(): void {
    this.#live.start();
    window.addEventListener("pagehide", this.#flush);
  }

  stop(): void {
    window.removeEventListener("pagehide", this.#flush);
    this.#live.stop();
    this.#flush();
  }

  open(conversationId: string | null): void {
    this.#leftId = null;
    this.#chat.flush();
    if (conversationId === null) {
      this.#chat = this.#blank;
    } else if (conversationId !== this.#chat.id || this.#chat.isAbsent) {
      this.#chat = this.#chatOf(conversationId);
    }
  }

  reconnectNow(): void {
    this.#live.reconnectNow();
  }

  /** The chat of a conversation, followed from now on. */
  #chatOf(id: string): ChatStore {
    const known = this.#chats.get(id);
    const chat = known ?? this.#newChat(id);
    if (!ID.test(id)) {
      chat.closed("gone"); // no such id can be; asking would be refused
      return chat;
    }
    const isFollowed = known !== undefined && !known.isAbsent;
    this.#use(id, chat);
    if (!isFollowed) {
      chat.revive();
      this.#follow(chat);
    }
    return chat;
  }

  #newChat(id: string | null): ChatStore {
    return new ChatStore(id, this.#acts, this.#drafts, {
      began: (chat, newId) => {
        if (chat === this.#blank) {
          this.#blank = this.#newChat(null);
        }
        this.#use(newId, chat);
        this.#follow(chat);
      },
    });
  }

  #follow(chat: ChatStore): void {
    const { opening } = chat;
    if (opening !== null) {
      this.#live.open(opening);
    }
  }

  /** It was absent and isn't any more. */
  #followAgain(id: string): void {
    const chat = this.#chats.get(id);
    if (chat?.isAbsent === true) {
      chat.revive();
      this.#follow(chat);
    }
  }

  /** Used now; the one that wasn't for the longest time is let go. */
  #use(id: string, chat: ChatStore): void {
    this.#chats.delete(id);
    this.#chats.set(id, chat);
    for (const [oldId, old] of this.#chats) {
      if (this.#chats.size <= this.#maxOpen) {
        break;
      }
      if (old !== chat && old !== this.#chat && !old.isBusy) {
        this.#drop(oldId);
      }
    }
  }

  #drop(id: string): void {
    this.#chats.get(id)?.flush();
    this.#chats.delete(id);
    this.#live.close(id);
  }

  #opens(): readonly Open[] {
    return [...this.#chats.values()].flatMap((chat) => chat.opening ?? []).slice(-this.#maxOpen);
  }

  #take(frame: ServerFrame): void {
    switch (frame.type) {
      case "feed":
        this.conversations.take(frame);
        // Given back elsewhere: by another tab, or by whoever shares it.
        frame.conversations.forEach(({ id }) => this.#followAgain(id));
        break;
      case "conversation":
        this.#chats.get(frame.conversation.id)?.take(frame);
        break;
      case "stream":
        this.#chats.get(frame.conversation_id)?.takeStream(frame);
        break;
      case "closed":
        this.#closed(frame.conversation_id, frame.reason);
        break;
      case "models":
        this.account.takeModels(frame);
        break;
      default: // replies are taken by the connection, pongs say enough by coming
        break;
    }
  }

  #closed(id: string, reason: "gone" | "asked" | "too_many"): void {
    const chat = this.#chats.get(id);
    chat?.closed(reason);
    if (reason === "too_many" && chat !== undefined && chat !== this.#chat && !chat.isBusy) {
      this.#chats.delete(id);
    }
  }

  #removed(id: string): void {
    if (this.#chat.id === id) {
      this.open(null);
      this.#leftId = id;
    }
  }

  #restored(id: string): void {
    const isBack = this.#leftId === id && this.#chat === this.#blank && this.#blank.isUntouched;
    this.#followAgain(id);
    if (isBack) {
      this.open(id);
    }
  }

  readonly #flush = () => this.#each((chat) => chat.flush());

  #each(what: (chat: ChatStore) => void): void {
    for (const chat of new Set([...this.#chats.values(), this.#chat, this.#blank])) {
      what(chat);
    }
  }

  #connectionIs(state: ConnectionState, retryAt: number | null): void {
    const isUp = state === "live" || state === "fallback";
    if (isUp && this.connection !== state && this.#wasUp) {
      void this.#checkSignedIn(); // models and more may have changed meanwhile, too
    }
    this.#wasUp ||= isUp;
    this.connection = state;
    this.retryAt = retryAt;
  }

  async #checkSignedIn(): Promise<void> {
    try {
      const me = await this.#rest.get<MeOut>("me");
      if (me.username !== this.account.me.username) {
        location.reload(); // somebody else signed in here: nothing of this tab is theirs
        return;
      }
      this.account.take(me);
    } catch {
      // a 401 has led away already; anything else will be tried again
    }
  }
}

/** A page older than the server is made anew; not again and again if that doesn't help. */
function reloadOnce(): void {
  try {
    const last = Number(sessionStorage.getItem(RELOADED_AT) ?? 0);
    if (Date.now() - last > RELOAD_AGAIN_MS) {
      sessionStorage.setItem(RELOADED_AT, String(Date.now()));
      location.reload();
    }
  } catch {
    // no storage: whether it was reloaded can't be known
  }
}
