// The live page of engines: asks once a second and draws what it is told. Everything that comes
// from the server is set as text, never as markup.
(() => {
  "use strict";
  const root = document.getElementById("engines");
  const list = document.getElementById("engines-list");
  const template = document.getElementById("model-template");
  const { word, number, field, setText, say, bytes, duration, follow, act, drawQueue, drawState } =
    window.lwLive(root);

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

  function drawModel(card, model) {
    const link = field(card, "name");
    setText(link, model.name);
    link.href = root.dataset.oneUrl.replace("/0/", `/${model.id}/`);
    drawState(card, model);
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

  function show(state) {
    draw(state);
    if (!state.error && !state.models.length) say(word("no_models"));
  }

  list.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (!button) return;
    const { id } = button.closest(".lw-model").dataset;
    const url = root.dataset.actUrl.replace("/0/act/", `/${id}/${button.dataset.act}/`);
    void act(button, url);
  });

  follow(show);
})();
