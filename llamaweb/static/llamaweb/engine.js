// The live page of one model: its engines' slots, rates, caches and log.
(() => {
  "use strict";
  const root = document.getElementById("engine");
  const template = document.getElementById("engine-template");
  const { word, number, field, setText, bytes, duration, follow, act, drawQueue, drawState } =
    window.lwLive(root);

  const known = (value, text) => (value ? text : "–");
  const count = (value) => (value === undefined ? "" : number.format(value));

  function drawRows(body, rows) {
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach((cells, index) => {
      const row = body.rows[index] || body.insertRow();
      cells.forEach((text, column) => {
        const cell = row.cells[column] || row.insertCell();
        if (column > 1 || (body.dataset.f === "cache" && column > 0)) cell.className = "lw-num";
        setText(cell, text);
      });
    });
  }

  function slotCells(slot, engine) {
    const isFree = slot.state === "free";
    const most = engine.max_context;
    const held = most
      ? word("of").replace("%1", count(slot.context)).replace("%2", number.format(most))
      : count(slot.context);
    return [
      word(slot.state),
      isFree ? "" : slot.name,
      count(slot.prompt),
      count(slot.cached),
      count(slot.generated),
      isFree ? "" : held,
    ];
  }

  function cacheRows(cache) {
    const slots = cache.slot_hits + cache.copy_hits;
    const whole = slots + cache.host_hits + cache.missed;
    const part = (hits) => (whole ? `${number.format((100 * hits) / whole)} %` : "–");
    const entries = word("entries").replace("%s", number.format(cache.host_entries));
    const budget = word("of")
      .replace("%1", cache.host_bytes ? bytes(cache.host_bytes) : "0 B")
      .replace("%2", bytes(cache.host_budget_bytes));
    const tokens = word("tokens").replace("%s", number.format(cache.slot_tokens));
    return [
      [word("in_slots"), count(slots), part(slots), tokens, bytes(cache.slot_bytes)],
      [word("in_memory"), count(cache.host_hits), part(cache.host_hits), entries, budget],
      [word("computed"), count(cache.missed), part(cache.missed), "", ""],
    ];
  }

  function drawEngine(card, engine, details) {
    setText(field(card, "id"), engine.id.slice(engine.id.lastIndexOf("-") + 1));
    const tag = field(card, "engine-state");
    setText(tag, word(engine.state));
    tag.dataset.state = engine.state;
    const numbers = {
      prefill: known(engine.prompt_tokens_per_s, number.format(engine.prompt_tokens_per_s)),
      decode: known(engine.tokens_per_s, number.format(engine.tokens_per_s)),
      "memory-used": bytes(engine.memory_bytes),
      threads: known(details.threads, number.format(details.threads)),
      up: duration(engine.uptime_s),
      heard: `${number.format(engine.age_s)} s`,
      pid: known(engine.pid, String(engine.pid)),
    };
    for (const [name, text] of Object.entries(numbers)) setText(field(card, name), text);
    drawRows(field(card, "slots"), details.slots.map((slot) => slotCells(slot, engine)));
    field(card, "slots-table").hidden = details.slots.length === 0;
    field(card, "cache-table").hidden = !details.cache;
    if (details.cache) drawRows(field(card, "cache"), cacheRows(details.cache));
  }

  function drawEngines(model) {
    const list = document.getElementById("engine-list");
    const details = new Map(model.details.map((one) => [one.id, one]));
    const engines = model.engines.filter((engine) => details.has(engine.id));
    while (list.children.length > engines.length) list.lastElementChild.remove();
    engines.forEach((engine, index) => {
      if (!list.children[index]) list.append(template.content.cloneNode(true).firstElementChild);
      drawEngine(list.children[index], engine, details.get(engine.id));
    });
  }

  // A reader who has scrolled up stays where they are.
  function drawLog(text) {
    const box = field(root, "log-lines");
    const isAtEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
    field(root, "log").hidden = !text;
    setText(box, text);
    if (isAtEnd) box.scrollTop = box.scrollHeight;
  }

  function show({ model }) {
    if (!model) return;
    drawState(root, model);
    setText(field(root, "memory"), model.memory);
    field(root, "memory").hidden = !model.memory;
    drawQueue(root, model.queue);
    drawEngines(model);
    drawLog(model.tail || model.log);
    for (const button of root.querySelectorAll("[data-act]")) {
      button.hidden = !model.may[button.dataset.act];
    }
    root.dataset.drawn = "1";
  }

  root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (button) void act(button, root.dataset.actUrl.replace("/act/", `/${button.dataset.act}/`));
  });

  follow(show);
})();
