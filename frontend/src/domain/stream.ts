/** Answers being written, made of `stream` frames. Pure. */
import type { PartOut, Place, Prefill, StreamEnd, StreamFrame, TurnOut } from "../types/api";
import { part } from "./parts";

type Run = StreamFrame["deltas"][number];

export interface Stream {
  readonly turnId: string;
  readonly generationId: string;
  /** To go on from here; opaque but for what `isPast` reads. */
  readonly cursor: string;
  readonly runs: readonly Run[];
  readonly place: Place | null;
  readonly prefill: Prefill | null;
  readonly end: StreamEnd | null;
}

/** By generation, the one begun last at the end. */
export type Streams = ReadonlyMap<string, Stream>;

export const NO_STREAMS: Streams = new Map();
/** More than a conversation has at a time, and what `open` may name. */
export const MAX_STREAMS = 16;

const OPEN_STATES = new Set<TurnOut["state"]>(["queued", "running", "waiting_for_user"]);

export function isOpenTurn(turn: TurnOut): boolean {
  return OPEN_STATES.has(turn.state) && !turn.is_deleted;
}

export function streamsTake(streams: Streams, frame: StreamFrame): Streams {
  const known = streams.get(frame.generation_id);
  const changed = new Map(streams);
  changed.set(frame.generation_id, streamTake(known, frame));
  while (changed.size > MAX_STREAMS) {
    const [oldest = ""] = changed.keys();
    changed.delete(oldest);
  }
  return changed;
}

function streamTake(known: Stream | undefined, frame: StreamFrame): Stream {
  const before = frame.reset ? undefined : known;
  const isRepeat = before !== undefined && isPast(frame.cursor, before.cursor);
  const deltas = isRepeat ? [] : frame.deltas;
  const hasMoved = deltas.length > 0 || frame.prefill !== null;
  return {
    turnId: frame.turn_id,
    generationId: frame.generation_id,
    cursor: isRepeat ? before.cursor : frame.cursor,
    runs: runsAdd(before?.runs ?? [], deltas),
    // It stands in the queue until it moves (again).
    place: frame.place ?? (hasMoved ? null : (before?.place ?? null)),
    prefill: frame.prefill ?? before?.prefill ?? null,
    end: frame.end ?? (hasMoved || frame.place !== null ? null : (before?.end ?? null)),
  };
}

/** Whether `cursor` stands before `other`, or where it stands. The first pieces of a text that is
    sent whole name no place (a negative one) and are never past. */
function isPast(cursor: string, other: string): boolean {
  const [incarnation, place] = cursor.split(":");
  const [otherIncarnation, otherPlace] = other.split(":");
  const at = Number(place);
  return incarnation === otherIncarnation && at >= 0 && at <= Number(otherPlace);
}

function runsAdd(runs: readonly Run[], deltas: readonly Run[]): readonly Run[] {
  const all: Run[] = [...runs];
  for (const [kind, text] of deltas) {
    const last = all.at(-1);
    if (last?.[0] === kind) {
      all[all.length - 1] = [kind, last[1] + text];
    } else if (text !== "") {
      all.push([kind, text]);
    }
  }
  return all;
}

/** Without the streams of turns that have ended: their answers are stored. */
export function streamsPrune(streams: Streams, turns: ReadonlyMap<string, TurnOut>): Streams {
  const over = [...streams.values()].filter(({ turnId, generationId }) => {
    const turn = turns.get(turnId);
    return turn !== undefined && !(isOpenTurn(turn) && turn.generation_id === generationId);
  });
  if (over.length === 0) {
    return streams;
  }
  const left = new Map(streams);
  for (const { generationId } of over) {
    left.delete(generationId);
  }
  return left;
}

/** What `open` says of them. One that has no place yet is sent whole again. */
export function cursorsOf(streams: Streams): Record<string, string> {
  const usable = [...streams.values()].filter(({ cursor }) => !cursor.includes("-"));
  return Object.fromEntries(usable.map(({ generationId, cursor }) => [generationId, cursor]));
}

/** The text so far, as the parts it will be stored as. */
export function partsOf(stream: Stream): PartOut[] {
  return stream.runs.flatMap(([kind, text]) =>
    kind === "tool_call"
      ? text.split("\n").filter(Boolean).map(toolCall) // each a line of JSON
      : [part(kind === "content" ? "text" : kind, { text })],
  );
}

function toolCall(text: string): PartOut {
  try {
    const call = JSON.parse(text) as Record<string, unknown>;
    const field = (name: string) => (typeof call[name] === "string" ? call[name] : "");
    const named = { call_id: field("id"), name: field("name"), arguments: field("arguments") };
    return part("tool_call", named);
  } catch {
    return part("tool_call", { arguments: text }); // not whole yet
  }
}
