/** The branch that is shown: rows, the text so far and what is being waited for. Pure. */
import type { MessageOut, TurnOut } from "../types/api";
import type { LiveAnswer, Phase, ShownMessage } from "../types/stores";
import { isOpenTurn, partsOf, type Stream, type Streams } from "./stream";
import type { Tree } from "./tree";

export type TurnsByAnswer = ReadonlyMap<string, TurnOut>;

/** The newest turn of each answer. */
export function turnsByAnswer(turns: ReadonlyMap<string, TurnOut>): TurnsByAnswer {
  const found = new Map<string, TurnOut>();
  for (const turn of turns.values()) {
    const known = found.get(turn.answer_id);
    const isNewer = known === undefined || order(turn) > order(known);
    if (!turn.is_deleted && isNewer) {
      found.set(turn.answer_id, turn);
    }
  }
  return found;
}

function order(turn: TurnOut): string {
  return `${turn.created_at} ${turn.id}`;
}

export function phaseOf(turn: TurnOut, stream: Stream | undefined, isStopping: boolean): Phase {
  if (stream?.end != null) {
    return "ending";
  }
  if (isStopping || turn.is_stopping) {
    return "stopping";
  }
  if (stream === undefined || stream.place !== null) {
    return turn.state === "running" && stream === undefined ? "prefill" : "queued";
  }
  if (stream.runs.length > 0) {
    return "generating";
  }
  return stream.prefill !== null || turn.state === "running" ? "prefill" : "queued";
}

interface Sources {
  readonly tree: Tree;
  readonly leafId: string | null;
  readonly turns: TurnsByAnswer;
  readonly streams: Streams;
  /** Turns whose stop was asked for here. */
  readonly stopping: ReadonlySet<string>;
}

/** Makes the path again and again; what didn't change on it stays the same object. */
export class PathMaker {
  #known = new Map<string, { readonly from: readonly unknown[]; readonly shown: ShownMessage }>();
  #path: readonly ShownMessage[] = [];

  make(sources: Sources): readonly ShownMessage[] {
    const known = this.#known;
    this.#known = new Map();
    const path = sources.tree.path(sources.leafId).map((message) => {
      const turn = sources.turns.get(message.id) ?? null;
      const stream = turn === null ? undefined : sources.streams.get(turn.generation_id);
      const siblings = sources.tree.siblings(message.id);
      const isStopping = turn !== null && sources.stopping.has(turn.id);
      const from = [message, turn, stream, isStopping, siblings.join()];
      const before = known.get(message.id);
      const made =
        before !== undefined && from.every((each, index) => each === before.from[index])
          ? before
          : { from, shown: shownOf(message, turn, stream, isStopping, siblings) };
      this.#known.set(message.id, made);
      return made.shown;
    });
    const isSame =
      path.length === this.#path.length && path.every((each, i) => each === this.#path[i]);
    this.#path = isSame ? this.#path : path;
    return this.#path;
  }
}

function shownOf(
  message: MessageOut,
  turn: TurnOut | null,
  stream: Stream | undefined,
  isStopping: boolean,
  siblings: readonly string[],
): ShownMessage {
  const isWritten = message.state === "streaming" && turn !== null && isOpenTurn(turn);
  const live: LiveAnswer | null =
    isWritten && turn.state !== "waiting_for_user"
      ? {
          phase: phaseOf(turn, stream, isStopping),
          place: stream?.place ?? null,
          prefill: stream?.prefill ?? null,
        }
      : null;
  return {
    id: message.id,
    role: message.role,
    state: message.state,
    parts: isWritten && stream !== undefined ? partsOf(stream) : message.parts,
    message,
    siblings,
    index: siblings.indexOf(message.id),
    turn,
    live,
  };
}
