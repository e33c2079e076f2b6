/** The models that may be chosen: how frames change them, and how they are listed. Pure. */
import type { ModelOut, ModelsFrame } from "../types/api";

export type ModelGroup = "loaded" | "available" | "unavailable";

export interface ModelSection {
  readonly group: ModelGroup;
  readonly models: readonly ModelOut[];
}

const GROUPS: readonly ModelGroup[] = ["loaded", "available", "unavailable"];
const GROUP_OF: Readonly<Record<ModelOut["state"], ModelGroup>> = {
  loaded: "loaded",
  loading: "available",
  unloaded: "available",
  draining: "available",
  unknown: "available",
  stopped: "unavailable",
  failed: "unavailable",
};
const MARKS = /\p{Mark}/gu;

/** The models after a frame, which holds only what is new. */
export function modelsTake(
  models: readonly ModelOut[],
  frame: Pick<ModelsFrame, "names" | "models">,
): readonly ModelOut[] {
  const byName = new Map([...models, ...frame.models].map((model) => [model.name, model]));
  return frame.names.flatMap((name) => byName.get(name) ?? []);
}

/** The one that a chat means: "" is the default one. */
export function modelNamed(models: readonly ModelOut[], name: string): ModelOut | undefined {
  return name === ""
    ? models.find((model) => model.is_default)
    : (models.find((model) => model.name === name) ??
        models.find((model) => model.aliases.includes(name)));
}

/** Whether there is another one than what a chat means. */
export function hasChoice(models: readonly ModelOut[], name: string): boolean {
  return models.length > 1 || (models.length === 1 && modelNamed(models, name) === undefined);
}

/** Those in which each word of `query` is found: in a name, an alias, a tag or the quantization. */
export function modelsMatching(models: readonly ModelOut[], query: string): readonly ModelOut[] {
  const words = plain(query).split(/\s+/).filter(Boolean);
  return models.filter((model) => {
    const text = plain(textOf(model));
    return words.every((word) => text.includes(word));
  });
}

/** By whether they answer now, in the order they came in; no section is empty. */
export function modelSections(models: readonly ModelOut[]): readonly ModelSection[] {
  return GROUPS.map((group) => ({
    group,
    models: models.filter((model) => GROUP_OF[model.state] === group),
  })).filter((section) => section.models.length > 0);
}

function textOf(model: ModelOut): string {
  const { name, title, aliases, tags, quantization } = model;
  return [name, title, quantization, ...aliases, ...tags].join("\n");
}

/** Without case and accents. */
function plain(text: string): string {
  return text.normalize("NFKD").replace(MARKS, "").toLowerCase();
}
