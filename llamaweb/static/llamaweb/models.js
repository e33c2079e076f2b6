// Keeps states and memory in the list of models in step with their engines. What comes from the
// server is set as text, never as markup.
(() => {
  "use strict";
  const POLL_MS = 1000;
  const SLOW_POLL_MS = 5000; // while the server, or Redis behind it, can't be reached
  const MAX_ASKED = 50; // ids in one request
  const drawn = new Map(); // texts of cells before anything was told

  const cell = (id, name) => document.querySelector(`[data-model="${id}"][data-live="${name}"]`);

  function setText(element, text) {
    if (!element || element.textContent === text) return;
    if (!drawn.has(element)) drawn.set(element, element.textContent);
    element.textContent = text;
  }

  function draw(model) {
    const tag = cell(model.id, "state");
    if (!tag) return;
    setText(tag, model.words);
    tag.dataset.state = model.state;
    setText(cell(model.id, "memory"), model.memory);
  }

  // What was told is no longer known to be so.
  function forget() {
    drawn.forEach((text, element) => {
      element.textContent = text;
      delete element.dataset.state;
    });
  }

  // Of some models; null for somebody who may not see them any more.
  async function ask(base, ids) {
    const url = `${base}state/?${ids.map((id) => `id=${id}`).join("&")}`;
    const response = await fetch(url, { redirect: "manual", signal: AbortSignal.timeout(10_000) });
    if (response.type === "opaqueredirect" || response.status === 403) return null;
    if (!response.ok) throw new Error(String(response.status));
    return (await response.json()).models;
  }

  async function poll(base, ids) {
    let wait = POLL_MS;
    try {
      for (let first = 0; first < ids.length; first += MAX_ASKED) {
        const models = await ask(base, ids.slice(first, first + MAX_ASKED));
        if (models === null) return;
        models.forEach(draw);
      }
    } catch {
      forget();
      wait = SLOW_POLL_MS;
    }
    setTimeout(whenVisible, wait, base, ids);
  }

  function whenVisible(base, ids) {
    if (!document.hidden) return void poll(base, ids);
    document.addEventListener("visibilitychange", () => whenVisible(base, ids), { once: true });
  }

  document.addEventListener("DOMContentLoaded", () => {
    const tags = [...document.querySelectorAll('[data-live="state"]')];
    const base = window.location.pathname.match(/^(.*\/modelconfig\/)$/);
    if (!base || !tags.length) return;
    void poll(
      base[1],
      tags.map((tag) => tag.dataset.model),
    );
  });
})();
