import { de } from "./de";
import { en, type Catalogue } from "./en";

export type { Catalogue } from "./en";

const catalogues: Record<string, Catalogue> = { en, de };

/** The first of the reader's languages that we have, else English. */
export function catalogueFor(languages: readonly string[]): {
  language: string;
  words: Catalogue;
} {
  for (const tag of languages) {
    const language = tag.toLowerCase().split("-")[0] ?? "";
    const words = catalogues[language];
    if (words !== undefined) {
      return { language, words };
    }
  }
  return { language: "en", words: en };
}
