import { healthOf, waitMs, type Health } from "../domain/health";
import { fetchHealth } from "../services/server";

/** The server as this page sees it, asked again and again while the page is looked at. */
export class Server {
  health = $state<Health>({ state: "checking", reason: "" });

  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #watching = false;

  /** Start asking; the function returned ends it. */
  watch(): () => void {
    this.#watching = true;
    const wake = () => {
      if (document.visibilityState === "visible") {
        this.#failures = 0;
        void this.#ask();
      }
    };
    document.addEventListener("visibilitychange", wake);
    void this.#ask();
    return () => {
      this.#watching = false;
      clearTimeout(this.#timer);
      document.removeEventListener("visibilitychange", wake);
    };
  }

  async #ask(): Promise<void> {
    clearTimeout(this.#timer);
    const health = healthOf(await fetchHealth());
    if (!this.#watching) {
      return;
    }
    this.#failures = health.state === "ready" ? 0 : this.#failures + 1;
    this.health = health;
    clearTimeout(this.#timer);
    if (document.visibilityState === "visible") {
      this.#timer = setTimeout(() => void this.#ask(), waitMs(health.state, this.#failures));
    }
  }
}
