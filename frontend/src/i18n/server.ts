/** What the server says, in the reader's language as far as it is known. Its own sentences are
    English and hold the numbers and names. Pure. */
import type { Catalogue } from "./en";
import { fill } from "./fill";

/** Errors that happen here; their English sentence says nothing more. */
const OWN = new Set(["offline", "late", "unconfirmed"]);

interface Said {
  readonly code: string;
  readonly message: string;
}

export interface ErrorText {
  /** What it is, "" for a code that isn't known. */
  readonly lead: string;
  /** The server's own words, "" if there are none. */
  readonly detail: string;
}

export function errorText(words: Catalogue, { code, message }: Said): ErrorText {
  const known: Readonly<Record<string, string>> = words.errors;
  const lead = Object.hasOwn(known, code) ? (known[code] ?? "") : "";
  return { lead, detail: OWN.has(code) && lead !== "" ? "" : message };
}

/** Both in one line. */
export function errorLine(words: Catalogue, error: Said): string {
  const { lead, detail } = errorText(words, error);
  return [lead, detail].filter(Boolean).join(" ");
}

type Reason = readonly [RegExp, keyof Catalogue["reasons"]];
const REASONS: readonly Reason[] = [
  [/^model (?<model>.+) is loading$/, "loading"],
  [/^model (?<model>.+) is not loaded$/, "unloaded"],
  [/^the model '(?<model>.+)' does not exist$/, "absent"],
  [/^no engine has started yet$/, "starting"],
  [/^the queue can't be reached\b/, "unreachable"],
  [/^engine died \(.*\), started again in (?<seconds>\d+) s$/, "restarting"],
  [/^model (?<model>.+) isn't in memory\b/, "resting"],
  [/^model (?<model>.+) waits for memory: (?<detail>.+)$/, "memory"],
  [/^model (?<model>.+) waits for GPU memory: (?<detail>.+)$/, "gpuMemory"],
  [/^model (?<model>.+) waits for a place: (?<detail>.+)$/, "place"],
  [/^model (?<model>.+) waits for its turn behind (?<other>.+)$/, "turn"],
  [/^model (?<model>.+) is being (?:measured|tried) on this machine, once$/, "measuring"],
  [/^model (?<model>.+) ends and is loaded again then$/, "ending"],
];
type Holder = readonly [RegExp, keyof Catalogue["holders"]];
const HOLDERS: readonly Holder[] = [
  [/^(?<other>[^,]+) is answering (?<n>\d+) requests?$/, "answering"],
  [/^(?<other>[^,]+) ends its last (?<n>\d+) requests?$/, "lastAnswers"],
  [/^(?<other>[^,]+) is loading$/, "loading"],
  [/^(?<other>[^,]+) is being unloaded$/, "leaving"],
  [/^(?<other>[^,]+) has requests to answer$/, "asked"],
  [/^(?<other>[^,]+) is pinned$/, "pinned"],
  [/^(?<other>[^,]+) was just loaded$/, "fresh"],
  [/^it needs (?<need>.+), (?<free>.+) are free$/, "needs"],
];
const MORE = /^(?<detail>.+) and (?<n>\d+) more$/;
const ANOTHER = "another model";

/** Why an answer waits; as the server says it if it isn't known. */
export function reasonText(words: Catalogue, reason: string): string {
  for (const [pattern, name] of REASONS) {
    const found = pattern.exec(reason);
    if (found !== null) {
      const { detail = "", other = "", ...groups } = found.groups ?? {};
      return fill(words.reasons[name], {
        ...groups,
        detail: holdersText(words, detail),
        other: otherText(words, other),
      });
    }
  }
  return reason;
}

/** Whether a reason says no more than that the model has to be loaded first. */
export function isRest(reason: string): boolean {
  return reason === "" || /^model .+ isn't in memory\b/.test(reason);
}

function holdersText(words: Catalogue, text: string): string {
  const more = MORE.exec(text)?.groups;
  if (more !== undefined) {
    return fill(words.holders.more, { ...more, detail: holdersText(words, more["detail"] ?? "") });
  }
  const whole = holderText(words, text);
  return (
    whole ??
    text
      .split(", ")
      .map((one) => holderText(words, one) ?? one)
      .join(", ")
  );
}

/** undefined: it isn't known. */
function holderText(words: Catalogue, text: string): string | undefined {
  for (const [pattern, name] of HOLDERS) {
    const found = pattern.exec(text)?.groups;
    if (found !== undefined) {
      return fill(words.holders[name], { ...found, other: otherText(words, found["other"] ?? "") });
    }
  }
  return undefined;
}

function otherText(words: Catalogue, other: string): string {
  return other === ANOTHER ? words.holders.another : other;
}
