/** What is said of a model, in words. Pure. */
import type { I18n } from "../../i18n/index.svelte";
import { fill } from "../../i18n/fill";
import { isRest, reasonText } from "../../i18n/server";
import type { ModelOut } from "../../types/api";

/** Whole percents, as the language writes them. */
export function percentText(i18n: I18n, share: number): string {
  return share.toLocaleString(i18n.language, { style: "percent", maximumFractionDigits: 0 });
}

/** How it stands, and why if that isn't plain; "" for one that answers. */
export function standText(i18n: I18n, model: ModelOut): string {
  const words = i18n.words.models;
  if (model.state === "loaded") {
    return "";
  }
  if (model.state === "loading" && model.load_progress !== null) {
    return fill(words.progress, { percent: percentText(i18n, model.load_progress) });
  }
  const isPlain = isRest(model.reason) || model.state === "stopped";
  return isPlain ? words.states[model.state] : reasonText(i18n.words, model.reason);
}

/** What else tells it from others, in one line. */
export function factsText(i18n: I18n, model: ModelOut): string {
  const words = i18n.words.models;
  return [
    model.title === model.name ? "" : model.title,
    model.quantization,
    model.max_context === 0 ? "" : i18n.count(words.context, model.max_context),
    ...model.aliases,
    ...model.tags.map((tag) => `#${tag}`),
  ]
    .filter(Boolean)
    .join(" · ");
}
