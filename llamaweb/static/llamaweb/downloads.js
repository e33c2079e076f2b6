// Keeps the progress of downloads in the list of model files; the page is loaded anew when one ends.
(() => {
  "use strict";
  const POLL_MS = 1000;
  const SLOW_POLL_MS = 5000;

  function rows() {
    return new Map([...document.querySelectorAll("[data-download]")].map((e) => [e.dataset.download, e]));
  }

  function draw(row, file) {
    row.querySelector("progress").value = file.percent;
    row.querySelector("[data-text]").textContent = file.text;
    row.querySelector("[data-error]").textContent = file.error;
  }

  async function poll(url) {
    let wait = POLL_MS;
    try {
      const response = await fetch(url, { redirect: "manual", signal: AbortSignal.timeout(10_000) });
      if (response.type === "opaqueredirect" || response.status === 403) return;
      const shown = rows();
      const { files } = await response.json();
      for (const file of files) {
        const row = shown.get(String(file.id));
        if (!row) continue;
        draw(row, file);
        if (!file.is_open && row.hasAttribute("data-open")) return window.location.reload();
      }
    } catch {
      wait = SLOW_POLL_MS;
    }
    setTimeout(poll, wait, url);
  }

  document.addEventListener("DOMContentLoaded", () => {
    if (!document.querySelector("[data-download][data-open]")) return;
    const base = window.location.pathname.match(/^(.*\/modelfile\/)/);
    if (base) void poll(`${base[1]}progress/`);
  });
})();
