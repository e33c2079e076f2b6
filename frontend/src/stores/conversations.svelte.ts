import { errorOf } from "../domain/errors";
import { listShown, listTake, listTakePage, NO_LIST } from "../domain/list";
import type { Acts } from "../services/acts";
import type { Rest } from "../services/rest";
import type { ConversationOut, ConversationPage, ErrorOut, FeedFrame } from "../types/api";
import type { ConversationList } from "../types/stores";

export const UNDO_MS = 8_000;

/** Told when a conversation goes and comes back by the person's own hand. */
export interface ListOwner {
  removed(id: string): void;
  restored(id: string): void;
}

interface Title {
  readonly title: string;
  /** The revision that has it; null: not confirmed. */
  readonly revision: number | null;
}

/** The sidebar's list. What was asked for here shows at once; the feed has the last word. */
export class ConversationListStore implements ConversationList {
  undo: { readonly id: string; readonly title: string } | null = $state.raw(null);
  error: ErrorOut | null = $state.raw(null);

  #list = $state.raw(NO_LIST);
  #titles: ReadonlyMap<string, Title> = $state.raw(new Map());
  #removed: ReadonlySet<string> = $state.raw(new Set());
  readonly #acts: Acts;
  readonly #rest: Rest;
  readonly #owner: ListOwner;
  #page: Promise<void> | null = null;
  #undoTimer: ReturnType<typeof setTimeout> | undefined;

  readonly rows: readonly ConversationOut[] = $derived(
    listShown(this.#list)
      .filter((row) => !this.#removed.has(row.id))
      .map((row) => titled(row, this.#titles.get(row.id))),
  );

  constructor(acts: Acts, rest: Rest, owner: ListOwner) {
    this.#acts = acts;
    this.#rest = rest;
    this.#owner = owner;
  }

  get isLoaded(): boolean {
    return this.#list.revision !== null;
  }

  get hasMore(): boolean {
    return this.#list.next !== null;
  }

  /** The last revision of the feed that came. */
  get revision(): number | null {
    return this.#list.revision;
  }

  take(frame: FeedFrame): void {
    this.#list = listTake(this.#list, frame);
    const revisions = new Map(frame.conversations.map((row) => [row.id, row.revision]));
    const titles = [...this.#titles].filter(
      ([id, { revision }]) => revision === null || revision > (revisions.get(id) ?? 0),
    );
    this.#titles = new Map(titles);
    if (frame.gone.some((id) => this.#removed.has(id))) {
      this.#removed = new Set([...this.#removed].filter((id) => !frame.gone.includes(id)));
    }
  }

  /** A page that doesn't come is asked for again with the next look at the end of the list. */
  loadMore(): Promise<void> {
    this.#page ??= this.#loadPage()
      .catch(() => undefined)
      .finally(() => {
        this.#page = null;
      });
    return this.#page;
  }

  async #loadPage(): Promise<void> {
    const { next } = this.#list;
    if (next !== null) {
      const query = new URLSearchParams({ before: next });
      const page = await this.#rest.get<ConversationPage>(`conversations?${query.toString()}`);
      if (this.#list.next === next) {
        this.#list = listTakePage(this.#list, page); // else the list began anew meanwhile
      }
    }
  }

  /** When it fails the old title is back. */
  async rename(id: string, title: string): Promise<void> {
    this.dismissError();
    this.#setTitle(id, { title, revision: null });
    try {
      const args = { conversation_id: id, title };
      const { revision } = await this.#acts.run("conversation.rename", args);
      const row = this.#list.rows.get(id);
      const isHere = revision === null || (row !== undefined && row.revision >= revision);
      this.#setTitle(id, isHere ? null : { title, revision });
    } catch (error) {
      this.#setTitle(id, null);
      this.error = errorOf(error);
    }
  }

  /** Deleted on the server at once, so that closing the tab changes nothing. When it fails it
      is in the list again. */
  async remove(id: string): Promise<void> {
    this.dismissError();
    const title = this.rows.find((row) => row.id === id)?.title ?? "";
    this.#removed = new Set([...this.#removed, id]);
    this.#owner.removed(id);
    try {
      await this.#acts.run("conversation.delete", { conversation_id: id });
    } catch (error) {
      this.#show(id);
      this.#owner.restored(id);
      this.error = errorOf(error);
      return;
    }
    this.#offerUndo({ id, title });
  }

  async undoRemove(): Promise<void> {
    const { undo } = this;
    if (undo === null) {
      return;
    }
    this.dismissUndo();
    this.dismissError();
    try {
      await this.#acts.run("conversation.restore", { conversation_id: undo.id });
      this.#show(undo.id);
      this.#owner.restored(undo.id);
    } catch (error) {
      this.#offerUndo(undo);
      this.error = errorOf(error);
    }
  }

  dismissUndo(): void {
    clearTimeout(this.#undoTimer);
    this.undo = null;
  }

  holdUndo(isHeld: boolean): void {
    clearTimeout(this.#undoTimer);
    if (!isHeld) {
      this.#undoTimer = setTimeout(() => this.dismissUndo(), UNDO_MS);
    }
  }

  dismissError(): void {
    this.error = null;
  }

  #offerUndo(undo: { id: string; title: string }): void {
    this.dismissUndo();
    this.undo = undo;
    this.holdUndo(false);
  }

  #show(id: string): void {
    this.#removed = new Set([...this.#removed].filter((each) => each !== id));
  }

  #setTitle(id: string, title: Title | null): void {
    const titles = new Map(this.#titles);
    titles.delete(id);
    if (title !== null) {
      titles.set(id, title);
    }
    this.#titles = titles;
  }
}

function titled(row: ConversationOut, own: Title | undefined): ConversationOut {
  return own === undefined ? row : { ...row, title: own.title, title_is_custom: true };
}
