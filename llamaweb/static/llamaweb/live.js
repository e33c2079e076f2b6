// What the live pages share: asking once a second, saying what went wrong, acts, and numbers in
// words. Everything that comes from the server is set as text, never as markup.
(() => {
  "use strict";
  const POLL_MS = 1000;
  const SLOW_POLL_MS = 5000; // while the server can't be reached
  const SAID_MS = 8000;

  // `root` holds the form's token, the notice and the address of the state.
  window.lwLive = (root) => {
    const notice = root.querySelector("[data-notice]");
    const words = JSON.parse(document.getElementById("live-words").textContent);
    const token = root.querySelector("[name=csrfmiddlewaretoken]").value;
    const lang = document.documentElement.lang || undefined;
    const number = new Intl.NumberFormat(lang, { maximumFractionDigits: 1 });
    let said = "";

    const word = (name) => words[name] || name;
    const field = (card, name) => card.querySelector(`[data-f="${name}"]`);

    function setText(element, text) {
      if (element.textContent !== text) element.textContent = text;
    }

    function say(text, kind = "") {
      said = text;
      setText(notice, text);
      notice.hidden = !text;
      notice.dataset.kind = kind;
    }

    function bytes(count) {
      if (!count) return "–";
      const units = ["B", "KiB", "MiB", "GiB", "TiB"];
      const step = Math.min(units.length - 1, Math.floor(Math.log2(count) / 10));
      return `${number.format(count / 1024 ** step)} ${units[step]}`;
    }

    function duration(seconds) {
      if (seconds < 60) return `${Math.round(seconds)} s`;
      if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
      const hours = Math.floor(seconds / 3600);
      return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
    }

    // Whose requests wait, with their counts.
    function drawQueue(card, queue) {
      field(card, "queue").hidden = !queue;
      if (!queue) return;
      for (const name of ["running", "waiting", "background"]) {
        setText(field(card, name), number.format(queue[name]));
      }
      const names = queue.owners.map((item) => `${item.name} (${item.count})`);
      if (queue.more_owners) names.push(word("more").replace("%s", queue.more_owners));
      setText(field(card, "owners"), names.join(", ") || word("nobody_waits"));
    }

    // How a model stands, and why it isn't ready.
    function drawState(card, model) {
      field(card, "default").hidden = !model.is_default;
      const isDisabled = model.wanted === "disabled" && model.state === "not_loaded";
      const state = isDisabled ? "disabled" : model.state;
      const tag = field(card, "state");
      const share = model.load_progress;
      const percent = typeof share === "number" ? ` ${number.format(Math.floor(100 * share))} %` : "";
      setText(tag, word(state) + percent);
      tag.dataset.state = state;
      setText(field(card, "reason"), model.reason);
      field(card, "reason").hidden = !model.reason;
      field(card, "pinned").hidden = !model.is_pinned;
    }

    // Ask for the state again and again while the page is seen; `show` draws it.
    function follow(show) {
      async function poll() {
        let wait = POLL_MS;
        try {
          const response = await fetch(root.dataset.stateUrl, {
            headers: { Accept: "application/json" },
            redirect: "manual",
            signal: AbortSignal.timeout(10_000),
          });
          if (response.type === "opaqueredirect" || response.status === 403) {
            say(word("signed_out"), "error");
            return; // nothing more to ask
          }
          if (response.status === 404) {
            say(word("gone"), "error");
            return;
          }
          if (!response.ok) throw new Error(String(response.status));
          const state = await response.json();
          show(state);
          if (state.error) say(`${word("no_queue")} ${state.error}`, "error");
          else if (notice.dataset.kind === "error") say("");
        } catch {
          say(word("unreachable"), "error");
          wait = SLOW_POLL_MS;
        }
        setTimeout(whenVisible, wait);
      }

      function whenVisible() {
        if (!document.hidden) return void poll();
        document.addEventListener("visibilitychange", whenVisible, { once: true });
      }

      void poll();
    }

    async function ask(url) {
      const response = await fetch(url, { method: "POST", headers: { "X-CSRFToken": token } });
      const answer = await response.json().catch(() => ({ error: word("signed_out") }));
      say(answer.message || answer.error || "", answer.error ? "refusal" : "done");
      const shown = said;
      setTimeout(() => said === shown && say(""), SAID_MS);
    }

    // Do what a button is for and say what came of it.
    async function act(button, url) {
      button.disabled = true;
      try {
        await ask(url);
      } catch {
        say(word("unreachable"), "refusal");
      } finally {
        button.disabled = false;
      }
    }

    return { word, number, field, setText, say, bytes, duration, follow, act, drawQueue, drawState };
  };
})();
