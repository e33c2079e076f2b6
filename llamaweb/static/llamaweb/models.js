// Keeps states and memory in the list of models in step with their engines. What comes from the
// server is set as text, never as markup.
(() => {
  "use strict";
  const POLL_MS = 1000;
  const SLOW_POLL_MS = 5000; // while the server can't be reached

  const cell = (id, name) => document.querySelector(`[data-model="${id}"][data-live="${name}"]`);

  function setText(element, text) {
    if (element && element.textContent !== text) element.textContent = text;
  }

  function draw(model) {
    const tag = cell(model.id, "state");
    if (!tag) return;
    setText(tag, model.words);
    tag.dataset.state = model.state;
    setText(cell(model.id, "memory"), model.memory);
  }

  async function poll(url) {
    let wait = POLL_MS;
    try {
      const response = await fetch(url, { redirect: "manual", signal: AbortSignal.timeout(10_000) });
      if (response.type === "opaqueredirect" || response.status === 403) return;
      if (!response.ok) throw new Error(String(response.status));
      const { models } = await response.json();
      models.forEach(draw);
    } catch {
      wait = SLOW_POLL_MS;
    }
    setTimeout(whenVisible, wait, url);
  }

  function whenVisible(url) {
    if (!document.hidden) return void poll(url);
    document.addEventListener("visibilitychange", () => whenVisible(url), { once: true });
  }

  document.addEventListener("DOMContentLoaded", () => {
    const tags = [...document.querySelectorAll('[data-live="state"]')];
    const base = window.location.pathname.match(/^(.*\/modelconfig\/)$/);
    if (!base || !tags.length) return;
    const ids = tags.map((tag) => `id=${tag.dataset.model}`);
    void poll(`${base[1]}state/?${ids.join("&")}`);
  });
})();
