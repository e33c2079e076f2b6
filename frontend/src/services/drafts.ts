/** Texts that aren't sent yet, in the browser's storage. Never throws: a draft that can't be kept
    lives as long as its tab. */

export const MAX_DRAFTS = 50;
export const MAX_DRAFT_CHARS = 100_000;

/** A message on its way: kept until the server confirmed it. */
export interface Sending {
  readonly clientKey: string;
  readonly text: string;
  /** The largest message number at that moment. */
  readonly after: number;
}

export interface Draft {
  readonly text: string;
  readonly sending: Sending | null;
}

const EMPTY: Draft = { text: "", sending: null };

export class Drafts {
  readonly #prefix: string;

  constructor(username: string) {
    this.#prefix = `llamaweb:draft:${encodeURIComponent(username)}:`;
  }

  /** `id`: of the conversation; null: of the one that doesn't exist yet. */
  read(id: string | null): Draft {
    try {
      const stored: unknown = JSON.parse(localStorage.getItem(this.#key(id)) ?? "null");
      return isDraft(stored) ? { text: stored.text, sending: stored.sending } : EMPTY;
    } catch {
      return EMPTY;
    }
  }

  write(id: string | null, draft: Draft): void {
    const size = draft.text.length + (draft.sending?.text.length ?? 0);
    try {
      if (size === 0 || size > MAX_DRAFT_CHARS) {
        localStorage.removeItem(this.#key(id));
        return;
      }
      this.#prune(this.#key(id));
      localStorage.setItem(this.#key(id), JSON.stringify({ ...draft, at: Date.now() }));
    } catch {
      // full or forbidden
    }
  }

  #key(id: string | null): string {
    return this.#prefix + (id ?? "new");
  }

  #prune(kept: string): void {
    const keys = Object.keys(localStorage).filter(
      (key) => key.startsWith(this.#prefix) && key !== kept,
    );
    if (keys.length >= MAX_DRAFTS) {
      const oldest = keys.sort((a, b) => ageOf(a) - ageOf(b));
      for (const key of oldest.slice(0, keys.length - MAX_DRAFTS + 1)) {
        localStorage.removeItem(key);
      }
    }
  }
}

function ageOf(key: string): number {
  try {
    const stored = JSON.parse(localStorage.getItem(key) ?? "null") as { at?: unknown } | null;
    return typeof stored?.at === "number" ? stored.at : 0;
  } catch {
    return 0;
  }
}

function isDraft(value: unknown): value is Draft {
  const { text, sending } = (value ?? {}) as Record<string, unknown>;
  const { clientKey, text: sent, after } = (sending ?? {}) as Record<string, unknown>;
  return (
    typeof text === "string" &&
    (sending === null ||
      (typeof clientKey === "string" && typeof sent === "string" && typeof after === "number"))
  );
}
