// The live page of engines: asks once a second and draws what it is told. Everything that comes
// from the server is set as text, never as markup.
(() => {
  "use strict";
  const POLL_MS = 1000;
  const SLOW_POLL_MS = 5000; // while the server can't be reached
  const root = document.getElementById("engines");
  const list = document.getElementById("engines-list");
  const notice = document.getElementById("engines-notice");
  const template = document.getElementById("model-template");
  const words = JSON.parse(document.getElementById("engines-words").textContent);
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

  function cells(engine) {
    const short = engine.id.slice(engine.id.lastIndexOf("-") + 1);
    const hits = engine.cache_hits === null ? "–" : `${number.format(engine.cache_hits)} %`;
    return [
      engine.pid ? `${short} (${engine.pid})` : short,
      word(engine.state),
      engine.num_slots ? `${engine.running}/${engine.num_slots}` : "–",
      number.format(engine.tokens_per_s),
      number.format(engine.prompt_tokens_per_s),
      hits,
      bytes(engine.memory_bytes),
      duration(engine.uptime_s),
      `${number.format(engine.age_s)} s`,
    ];
  }

  function drawEngines(body, engines) {
    while (body.rows.length > engines.length) body.deleteRow(-1);
    engines.forEach((engine, index) => {
      const row = body.rows[index] || body.insertRow();
      cells(engine).forEach((text, column) => {
        const cell = row.cells[column] || row.insertCell();
        if (column > 1) cell.className = "lw-num";
        setText(cell, text);
      });
    });
  }

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

  function drawModel(card, model) {
    setText(field(card, "name"), model.name);
    field(card, "default").hidden = !model.is_default;
    const state = model.wanted === "disabled" && model.state === "not_loaded" ? "disabled" : model.state;
    const tag = field(card, "state");
    setText(tag, word(state));
    tag.dataset.state = state;
    setText(field(card, "reason"), model.reason);
    field(card, "reason").hidden = !model.reason;
    field(card, "pinned").hidden = !model.is_pinned;
    setText(field(card, "log-lines"), model.log);
    field(card, "log").hidden = !model.log;
    setText(field(card, "measured"), model.measured.join("\n"));
    field(card, "measured").hidden = model.measured.length === 0;
    setText(field(card, "memory"), model.memory);
    field(card, "memory").hidden = !model.memory;
    field(card, "table").hidden = model.engines.length === 0;
    drawEngines(field(card, "engines"), model.engines);
    drawQueue(card, model.queue);
    for (const button of card.querySelectorAll("[data-act]")) {
      button.hidden = !model.may[button.dataset.act];
    }
  }

  function draw(state) {
    const known = new Map([...list.children].map((card) => [card.dataset.id, card]));
    for (const model of state.models) {
      let card = known.get(String(model.id));
      known.delete(String(model.id));
      if (!card) {
        card = template.content.cloneNode(true).firstElementChild;
        card.dataset.id = model.id;
      }
      if (card !== list.children[state.models.indexOf(model)]) {
        list.insertBefore(card, list.children[state.models.indexOf(model)] || null);
      }
      drawModel(card, model);
    }
    for (const card of known.values()) card.remove();
    list.dataset.drawn = "1";
  }

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
      if (!response.ok) throw new Error(String(response.status));
      const state = await response.json();
      draw(state);
      if (state.error) say(`${word("no_queue")} ${state.error}`, "error");
      else if (notice.dataset.kind === "error") say("");
      if (!state.error && !state.models.length) say(word("no_models"));
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

  async function act(card, name) {
    const url = root.dataset.actUrl.replace("/0/act/", `/${card.dataset.id}/${name}/`);
    const response = await fetch(url, { method: "POST", headers: { "X-CSRFToken": token } });
    const answer = await response.json().catch(() => ({ error: word("signed_out") }));
    say(answer.message || answer.error || "", answer.error ? "refusal" : "done");
    const shown = said;
    setTimeout(() => said === shown && say(""), 8000);
  }

  list.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (!button) return;
    button.disabled = true;
    act(button.closest(".lw-model"), button.dataset.act)
      .catch(() => say(word("unreachable"), "refusal"))
      .finally(() => { button.disabled = false; });
  });

  void poll();
})();
