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
];

/** Why an answer waits; as the server says it if it isn't known. */
export function reasonText(words: Catalogue, reason: string): string {
  for (const [pattern, name] of REASONS) {
    const found = pattern.exec(reason);
    if (found !== null) {
      return fill(words.reasons[name], found.groups ?? {});
    }
  }
  return reason;
}
