import { de } from "./de";
import { en, type Catalogue, type Plural } from "./en";
import { fill, type Values } from "./fill";
import { agoText, dateText } from "./format";

export type { Catalogue, Plural } from "./en";
export { fill } from "./fill";

const catalogues: Readonly<Record<string, Catalogue>> = { en, de };

/** The first of these languages that there is a catalogue for, else English. */
export function languageOf(wanted: readonly string[]): string {
  const tags = wanted.map((tag) => tag.toLowerCase().split("-")[0] ?? "");
  return tags.find((tag) => tag in catalogues) ?? "en";
}

/** The texts, numbers and dates of one language, which can change while the app is open. */
export class I18n {
  language = $state("en");
  readonly words = $derived(catalogues[this.language] ?? en);

  constructor(language: string) {
    this.language = languageOf([language]);
  }

  number(value: number): string {
    return value.toLocaleString(this.language);
  }

  /** The text for `n` things; `{n}` in it is the number. */
  count(forms: Plural, n: number, values: Values = {}): string {
    return this.#choose(forms, n, "cardinal", values);
  }

  /** "3rd" */
  ordinal(n: number): string {
    return this.#choose(this.words.live.ordinal, n, "ordinal", {});
  }

  /** "5 seconds" */
  seconds(n: number): string {
    return new Intl.NumberFormat(this.language, {
      style: "unit",
      unit: "second",
      unitDisplay: "long",
    }).format(n);
  }

  date(iso: string): string {
    return dateText(this.language, iso);
  }

  ago(iso: string): string {
    return agoText(this.language, iso);
  }

  #choose(forms: Plural, n: number, type: Intl.PluralRuleType, values: Values): string {
    const category = new Intl.PluralRules(this.language, { type }).select(n);
    return fill(forms[category] ?? forms.other, { n: this.number(n), ...values });
  }
}
