import { NO_ROWS, rowsInterrupted, rowsTake } from "../domain/conversation";
import { errorOf } from "../domain/errors";
import { newKey } from "../domain/keys";
import { PathMaker, turnsByAnswer } from "../domain/path";
import { cursorsOf, isOpenTurn, NO_STREAMS, streamsPrune, streamsTake } from "../domain/stream";
import { Tree } from "../domain/tree";
import type { ActArgs, ActName, Acts } from "../services/acts";
import type { Drafts } from "../services/drafts";
import type {
  ActResult,
  ClosedFrame,
  ConversationFrame,
  ConversationOut,
  ErrorOut,
  Open,
  PartIn,
  StreamFrame,
} from "../types/api";
import type { Chat, Outgoing, ShownMessage } from "../types/stores";
import { Composer } from "./composer.svelte";

/** A branch chosen here, until the conversation says so itself. */
interface Choice {
  readonly leafId: string;
  /** The revision that has it; null: not confirmed. */
  readonly revision: number | null;
}

export interface ChatOwner {
  /** The first message made the conversation; the chat has its id. */
  began(chat: ChatStore, id: string): void;
}

/** One conversation, or one that is to be. What is shown comes from frames only, but for what is on
    its way: a message, a stop, the choice of a branch. */
export class ChatStore implements Chat {
  id: string | null = $state(null);
  isAbsent = $state(false);
  error: ErrorOut | null = $state.raw(null);

  #rows = $state.raw(NO_ROWS);
  #streams = $state.raw(NO_STREAMS);
  #stopping: ReadonlySet<string> = $state.raw(new Set());
  #choice: Choice | null = $state.raw(null);
  #model: string | null = $state(null);
  readonly #maker = new PathMaker();
  readonly #acts: Acts;
  readonly #owner: ChatOwner;
  readonly #composer: Composer;

  readonly #tree = $derived(new Tree(this.#rows.messages));
  readonly #turns = $derived(turnsByAnswer(this.#rows.turns));
  readonly path: readonly ShownMessage[] = $derived(
    this.#maker.make({
      tree: this.#tree,
      leafId: this.#leafId,
      turns: this.#turns,
      streams: this.#streams,
      stopping: this.#stopping,
    }),
  );

  constructor(id: string | null, acts: Acts, drafts: Drafts, owner: ChatOwner) {
    this.id = id;
    this.#acts = acts;
    this.#owner = owner;
    this.#composer = new Composer(id, drafts);
  }

  get conversation(): ConversationOut | null {
    return this.#rows.conversation;
  }

  get isLoading(): boolean {
    return this.id !== null && this.#rows.conversation === null && !this.isAbsent;
  }

  get isRunning(): boolean {
    return (this.path.at(-1)?.live ?? null) !== null;
  }

  get canWrite(): boolean {
    return this.id === null ? true : (this.#rows.conversation?.can_write ?? false);
  }

  get outgoing(): Outgoing | null {
    return this.#composer.outgoing;
  }

  get draft(): string {
    return this.#composer.text;
  }

  set draft(text: string) {
    this.#composer.text = text;
  }

  get modelName(): string {
    return this.#model ?? this.#rows.conversation?.model_name ?? "";
  }

  set modelName(name: string) {
    this.#model = name;
  }

  get #leafId(): string | null {
    const { conversation } = this.#rows;
    const chosen = this.#choice?.leafId;
    return chosen !== undefined && this.#tree.has(chosen)
      ? chosen
      : (conversation?.current_leaf_id ?? null);
  }

  // --- what the app calls

  /** What the connection is asked for; null: nothing. */
  get opening(): Open | null {
    return this.id === null || this.isAbsent
      ? null
      : {
          type: "open",
          conversation_id: this.id,
          revision: this.#rows.revision,
          cursors: cursorsOf(this.#streams),
        };
  }

  /** It must not be forgotten. */
  get isBusy(): boolean {
    return this.#composer.isSending;
  }

  /** Nothing was written here. */
  get isUntouched(): boolean {
    return this.#composer.text === "" && this.#composer.outgoing === null;
  }

  take(frame: ConversationFrame): void {
    const before = this.#rows;
    this.#rows = rowsTake(before, frame);
    this.isAbsent = false;
    if (this.#rows.conversation === before.conversation && this.#rows.turns === before.turns) {
      return; // more is to come
    }
    this.#streams = streamsPrune(this.#streams, this.#rows.turns);
    const open = [...this.#stopping].filter((id) => {
      const turn = this.#rows.turns.get(id);
      return turn !== undefined && isOpenTurn(turn);
    });
    this.#stopping = new Set(open);
    this.#dropChoice(before.conversation);
    this.#composer.arrived(this.#rows.messages, this.#rows.revision);
  }

  takeStream(frame: StreamFrame): void {
    const turn = this.#rows.turns.get(frame.turn_id);
    if (turn === undefined || isOpenTurn(turn)) {
      this.#streams = streamsTake(this.#streams, frame);
    }
  }

  closed(reason: ClosedFrame["reason"]): void {
    if (reason === "gone") {
      this.isAbsent = true;
      this.#rows = NO_ROWS;
      this.#streams = NO_STREAMS;
      this.#choice = null;
    }
  }

  interrupted(): void {
    this.#rows = rowsInterrupted(this.#rows);
  }

  /** Look again for what was absent. */
  revive(): void {
    this.isAbsent = false;
  }

  flush(): void {
    this.#composer.flush();
  }

  // --- what the person does

  async send(text: string): Promise<void> {
    const numbers = [...this.#rows.messages.values()].map((message) => message.number);
    if (this.#composer.begin(text, Math.max(0, ...numbers))) {
      await this.#deliver();
    }
  }

  async sendAgain(): Promise<void> {
    if (this.#composer.beginAgain()) {
      await this.#deliver();
    }
  }

  takeBack(): void {
    this.#composer.takeBack();
  }

  async stop(): Promise<void> {
    const last = this.path.at(-1);
    const turn = last?.turn ?? null;
    if (turn === null || !isOpenTurn(turn) || this.#stopping.has(turn.id)) {
      return;
    }
    this.#stopping = new Set([...this.#stopping, turn.id]);
    if ((await this.#do("turn.stop", { turn_id: turn.id })) === null) {
      this.#stopping = new Set([...this.#stopping].filter((id) => id !== turn.id));
    }
  }

  /** Have the model end its reasoning; false: it wasn't told. */
  async answerNow(turnId: string): Promise<boolean> {
    return (await this.#do("turn.answer_now", { turn_id: turnId }))?.was_told === true;
  }

  async retry(turnId: string): Promise<void> {
    const args = { turn_id: turnId, model_name: this.#model, client_key: newKey() };
    await this.#do("turn.retry", args);
  }

  async regenerate(messageId: string, modelName?: string): Promise<void> {
    const name = modelName ?? this.#model;
    const args = { message_id: messageId, model_name: name, client_key: newKey() };
    await this.#do("message.regenerate", args);
  }

  async edit(messageId: string, text: string, inPlace = false): Promise<boolean> {
    const result = await this.#do("message.edit", {
      message_id: messageId,
      parts: partsFrom(text),
      in_place: inPlace,
      model_name: this.#model,
      client_key: newKey(),
    });
    return result !== null;
  }

  async remove(messageId: string): Promise<void> {
    await this.#do("message.delete", { message_id: messageId });
  }

  async select(messageId: string): Promise<void> {
    const leafId = this.#tree.leafBelow(messageId);
    const choice: Choice = { leafId, revision: null };
    this.#choice = choice;
    if (this.id === null || !this.canWrite) {
      return; // readers look around for themselves
    }
    const args = { conversation_id: this.id, message_id: messageId };
    const result = await this.#do("leaf.select", args);
    if (this.#choice === choice) {
      const isHere = result !== null && (result.revision ?? 0) <= (this.#rows.revision ?? 0);
      this.#choice = result === null || isHere ? null : { ...choice, revision: result.revision };
    }
  }

  dismissError(): void {
    this.error = null;
  }

  // --- inside

  async #deliver(): Promise<void> {
    this.error = null;
    const result = await this.#composer.send((text, clientKey) =>
      this.#acts.run("turn.start", {
        conversation_id: this.id,
        parts: partsFrom(text),
        parent_id: this.path.at(-1)?.id ?? null,
        model_name: this.#model,
        client_key: clientKey,
      }),
    );
    if (result === null) {
      return;
    }
    this.#choice = null;
    if (this.id === null && result.conversation_id !== null) {
      this.#composer.moveTo(result.conversation_id);
      this.id = result.conversation_id;
      this.#owner.began(this, this.id);
    }
    this.#composer.arrived(this.#rows.messages, this.#rows.revision);
  }

  /** null: it failed, and `error` says why. */
  async #do<N extends ActName>(name: N, args: ActArgs[N]): Promise<ActResult | null> {
    this.error = null;
    try {
      return await this.#acts.run(name, args);
    } catch (error) {
      this.error = errorOf(error);
      return null;
    }
  }

  /** A branch chosen here gives way to what the conversation says after it. */
  #dropChoice(before: ConversationOut | null): void {
    const { conversation, revision } = this.#rows;
    if (this.#choice === null || conversation === null) {
      return;
    }
    const confirmed = this.#choice.revision;
    const hasMoved = before !== null && before.current_leaf_id !== conversation.current_leaf_id;
    if (confirmed === null ? hasMoved && !this.canWrite : confirmed <= (revision ?? 0)) {
      this.#choice = null;
    }
  }
}

function partsFrom(text: string): PartIn[] {
  return [{ type: "text", text }];
}
