import type { MeOut } from "../types/api";
import type { Account, App, Chat, ConnectionState, ConversationList } from "../types/stores";

/** Who is signed in; goes to the login page when nobody is. Throws an `ErrorOut`. */
export async function loadBoot(): Promise<MeOut> {
  const response = await fetch("/api/app/me");
  return (await response.json()) as MeOut;
}

/** The app for one tab; it connects at once. */
export function createApp(boot: MeOut): App {
  return new AppStore(boot);
}

class AppStore implements App {
  connection = $state<ConnectionState>("connecting");
  retryAt = $state<number | null>(null);
  readonly account: Account;
  readonly conversations: ConversationList;
  readonly chat: Chat;

  constructor(boot: MeOut) {
    const none = () => Promise.resolve();
    const absent = () => Promise.reject(new Error("not there yet"));
    this.account = {
      me: boot,
      models: boot.models,
      refreshModels: none,
      setPreferences: none,
      keys: absent,
      createKey: absent,
      revokeKey: none,
      changePassword: none,
      sessions: absent,
      endSession: none,
      endOtherSessions: () => Promise.resolve(0),
    };
    this.conversations = {
      rows: [],
      isLoaded: false,
      hasMore: false,
      undo: null,
      loadMore: none,
      rename: none,
      remove: none,
      undoRemove: none,
      dismissUndo: () => undefined,
    };
    this.chat = {
      id: null,
      conversation: null,
      isLoading: false,
      isAbsent: false,
      path: [],
      outgoing: null,
      isRunning: false,
      canWrite: true,
      modelName: "",
      draft: "",
      error: null,
      send: none,
      sendAgain: none,
      takeBack: () => undefined,
      stop: none,
      retry: none,
      regenerate: none,
      edit: none,
      remove: none,
      select: none,
      dismissError: () => undefined,
    };
  }

  open(conversationId: string | null): void {
    void conversationId;
  }

  reconnectNow(): void {
    this.connection = "connecting";
  }
}
