import { expect, test } from "vitest";

import { de } from "./de";
import { en } from "./en";
import { errorLine, errorText, reasonText } from "./server";

// As conversations/edge/errors.py, inference/protocol/events.py and conversations/turns/store.py say.
const CODES = [
  "invalid too_long signed_out forbidden not_found busy unavailable not_supported deadline failed",
  "invalid_request context_length_exceeded deadline_exceeded engine_failed engine_crashed",
  "model_unavailable generation_lost",
].flatMap((line) => line.split(" "));
const OWN = ["offline", "late", "unconfirmed"];

test("every known code has a text of its own, before the server's sentence", () => {
  for (const words of [en, de]) {
    const leads = CODES.map((code) => errorText(words, { code, message: "4096 of 2048." }));
    expect(leads.filter(({ lead, detail }) => lead === "" || detail !== "4096 of 2048.")).toEqual(
      [],
    );
    expect(new Set(leads.map(({ lead }) => lead)).size).toBe(CODES.length);
  }
});

test("what happened here is said once, in the reader's language", () => {
  for (const code of OWN) {
    expect(errorText(de, { code, message: "English." }).detail).toBe("");
  }
  expect(errorLine(de, { code: "offline", message: "x" })).toBe("Der Server ist nicht erreichbar.");
});

test("of an unknown code the server's sentence is left", () => {
  for (const code of ["later", "", "constructor"]) {
    expect(errorLine(de, { code, message: "It says." })).toBe("It says.");
  }
});

test("reasons are said in the reader's language, with their names", () => {
  const texts = [
    "model qwen3 8b is loading",
    "model {seconds} is not loaded",
    "no engine has started yet",
    "the queue can't be reached at the moment; the answer goes on when it is back",
    "engine died (signal 9), started again in 4 s",
    "the model 'x' does not exist",
    "something else",
  ].map((reason) => reasonText(de, reason));
  expect(texts).toEqual([
    "das Modell qwen3 8b wird geladen",
    "das Modell {seconds} ist nicht geladen",
    de.reasons.starting,
    de.reasons.unreachable,
    "die Engine des Modells ist abgestürzt und startet in 4 s neu",
    "das Modell x gibt es nicht",
    "something else",
  ]);
});
