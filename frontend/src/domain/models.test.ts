import { expect, it } from "vitest";

import type { ModelOut } from "../types/api";
import { hasChoice, modelNamed, modelSections, modelsMatching, modelsTake } from "./models";
import { model } from "./samples";

const names = (models: readonly ModelOut[]) => models.map(({ name }) => name);

it("takes what is new, leaves out what is gone, and keeps the order it is told", () => {
  const before = [model("a", { is_default: true }), model("b"), model("c")];
  const after = modelsTake(before, {
    names: ["c", "d", "a"],
    models: [model("d"), model("a", { state: "loading", load_progress: 0.5 })],
  });
  expect(names(after)).toEqual(["c", "d", "a"]);
  expect(after[2]).toMatchObject({ state: "loading", load_progress: 0.5 });
  expect(after[0]).toBe(before[2]);
});

it("leaves out a name that it was never told of", () => {
  expect(modelsTake([], { names: ["a"], models: [] })).toEqual([]);
});

it("finds each word somewhere, without case and accents", () => {
  const models = [
    model("qwen3-8b", { title: "Qwen3 8B Instruct", quantization: "Q4_K_M", tags: ["schnell"] }),
    model("gemma-3", { aliases: ["gpt-small"], tags: ["größer"] }),
  ];
  for (const query of ["QWEN", "instruct", "q4_k", "schnell qwen", "  "]) {
    expect(names(modelsMatching(models, query))).toContain("qwen3-8b");
  }
  expect(names(modelsMatching(models, "gpt"))).toEqual(["gemma-3"]);
  expect(names(modelsMatching(models, "Grosser groß"))).toEqual([]);
  expect(names(modelsMatching(models, "GROẞER größer"))).toEqual(["gemma-3"]);
  expect(modelsMatching(models, "qwen gpt")).toEqual([]);
});

it("puts those first that answer now, and leaves out empty sections", () => {
  const models = [
    model("off", { state: "stopped" }),
    model("rests", { state: "unloaded" }),
    model("here"),
    model("comes", { state: "loading" }),
  ];
  expect(modelSections(models).map((one) => [one.group, names(one.models)])).toEqual([
    ["loaded", ["here"]],
    ["available", ["rests", "comes"]],
    ["unavailable", ["off"]],
  ]);
  expect(modelSections([model("here")])).toHaveLength(1);
});

it("knows which one a chat means", () => {
  const models = [model("a", { aliases: ["small"] }), model("b", { is_default: true })];
  expect(modelNamed(models, "")?.name).toBe("b");
  expect(modelNamed(models, "small")?.name).toBe("a");
  expect(modelNamed(models, "a")?.name).toBe("a");
  expect(modelNamed(models, "gone")).toBeUndefined();
});

it("knows when there is nothing to choose", () => {
  const only = model("a", { is_default: true });
  expect(hasChoice([only], "")).toBe(false);
  expect(hasChoice([only], "a")).toBe(false);
  expect(hasChoice([only], "gone")).toBe(true);
  expect(hasChoice([only, model("b")], "a")).toBe(true);
  expect(hasChoice([], "")).toBe(false);
});
