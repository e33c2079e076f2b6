import { expect, test } from "vitest";

import { de } from "./de";
import { en } from "./en";
import { errorLine, errorText, isRest, reasonText } from "./server";

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
    "model a isn't in memory; the next request has it loaded",
    "model a waits for memory: b is answering 1 request, another model is pinned and 2 more",
    "model a waits for memory: it needs 4.0 GiB, 1.5 GiB are free",
    "model a waits for GPU memory: b ends its last 2 requests",
    "model a waits for a place: b is sleeping",
    "model a waits for its turn behind another model",
    "something else",
  ].map((reason) => reasonText(de, reason));
  expect(texts).toEqual([
    "das Modell qwen3 8b wird geladen",
    "das Modell {seconds} ist nicht geladen",
    de.reasons.starting,
    de.reasons.unreachable,
    "die Engine des Modells ist abgestürzt und startet in 4 s neu",
    "das Modell x gibt es nicht",
    "das Modell a ist nicht im Speicher",
    "das Modell a wartet auf Speicher: b antwortet gerade (1), ein anderes Modell ist angeheftet und 2 weitere",
    "das Modell a wartet auf Speicher: es braucht 4.0 GiB, 1.5 GiB sind frei",
    "das Modell a wartet auf GPU-Speicher: b beendet seine letzten Antworten (2)",
    "das Modell a wartet auf einen Platz: b is sleeping",
    "das Modell a wartet hinter: ein anderes Modell",
    "something else",
  ]);
});

test("that a model has to be loaded first is no reason to be told of", () => {
  expect(isRest("")).toBe(true);
  expect(isRest("model a isn't in memory; the next request has it loaded")).toBe(true);
  expect(isRest("model a waits for memory: b is pinned")).toBe(false);
});
