import { createContext } from "svelte";

import type { I18n } from "../../i18n/index.svelte";
import type { App } from "../../types/stores";

/** What every component may use. */
export interface Ui {
  readonly app: App;
  readonly i18n: I18n;
  /** Go to a path of the app. */
  go(path: string): void;
  /** Let screen readers say it, politely and once. */
  announce(text: string): void;
  showShortcuts(): void;
}

export const [getUi, setUi] = createContext<Ui>();
