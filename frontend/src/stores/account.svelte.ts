import { modelsTake } from "../domain/models";
import { signOut } from "../services/login";
import type { Rest } from "../services/rest";
import type {
  Ended,
  KeyCreated,
  KeyIn,
  KeyList,
  MeOut,
  ModelOut,
  ModelsFrame,
  PasswordIn,
  PreferencesIn,
  PreferencesOut,
  SessionList,
} from "../types/api";
import type { Account } from "../types/stores";

/** Who is signed in, and their settings. Every call throws an `ErrorOut` when it fails. */
export class AccountStore implements Account {
  me: MeOut = $state.raw({} as MeOut);
  models: readonly ModelOut[] = $state.raw([]);

  readonly #rest: Rest;
  /** What the server has, as far as it said so. */
  #stored: PreferencesOut;
  #numChanges = 0;

  constructor(me: MeOut, rest: Rest) {
    this.me = me;
    this.models = me.models;
    this.#stored = { theme: me.theme, language: me.language };
    this.#rest = rest;
  }

  /** What the server says now. */
  take(me: MeOut): void {
    this.me = me;
    this.models = me.models;
    this.#stored = { theme: me.theme, language: me.language };
  }

  /** What changed among the models, told over the live connection. */
  takeModels(frame: ModelsFrame): void {
    this.models = modelsTake(this.models, frame);
  }

  async setPreferences(preferences: PreferencesIn): Promise<void> {
    const { theme, language } = this.me;
    this.me = {
      ...this.me,
      theme: preferences.theme ?? theme,
      language: preferences.language ?? language,
    };
    this.#numChanges += 1;
    const change = this.#numChanges;
    try {
      this.#stored = await this.#rest.call<PreferencesOut>("PATCH", "preferences", preferences);
    } finally {
      if (change === this.#numChanges) {
        this.me = { ...this.me, ...this.#stored }; // else a later choice is shown already
      }
    }
  }

  keys(): Promise<KeyList> {
    return this.#rest.get<KeyList>("keys");
  }

  createKey(wanted: KeyIn): Promise<KeyCreated> {
    return this.#rest.call<KeyCreated>("POST", "keys", wanted);
  }

  revokeKey(id: number): Promise<void> {
    return this.#rest.call("DELETE", `keys/${id}`);
  }

  changePassword(current: string, next: string): Promise<void> {
    const body: PasswordIn = { current, new: next };
    return this.#rest.call("POST", "password", body);
  }

  sessions(): Promise<SessionList> {
    return this.#rest.get<SessionList>("sessions");
  }

  signOut(): void {
    signOut();
  }

  async endSession(id: number): Promise<void> {
    await this.#rest.call<Ended>("DELETE", `sessions/${id}`);
  }

  async endOtherSessions(): Promise<number> {
    return (await this.#rest.call<Ended>("DELETE", "sessions")).num_ended;
  }
}
