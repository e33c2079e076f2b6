// Keeps the memory estimate on a model's page in step with what is typed into its form.
(() => {
  "use strict";
  const WAIT_MS = 300;
  const FIELDS = [
    "num_slots", "context_len", "kv_layout", "ubatch_len", "cache_type_k", "cache_type_v",
    "flash_attention", "gpu_layers",
  ];

  document.addEventListener("DOMContentLoaded", () => {
    const shown = document.querySelector("[data-memory]");
    const page = window.location.pathname.match(/^(.*\/modelconfig\/[^/]+\/)change\//);
    if (!shown || !page) return;
    let timer = 0;
    let asked = 0;

    async function ask(number) {
      const query = new URLSearchParams();
      for (const name of FIELDS) {
        const field = document.querySelector(`[name="${name}"]`);
        if (field) query.set(name, field.value);
      }
      try {
        const response = await fetch(`${page[1]}memory/?${query}`, {
          redirect: "manual",
          signal: AbortSignal.timeout(10_000),
        });
        if (!response.ok) return;
        const { lines } = await response.json();
        if (number === asked && lines.length) shown.textContent = lines.join("\n");
      } catch {
        // The next change asks again.
      }
    }

    document.addEventListener("input", (event) => {
      if (!FIELDS.includes(event.target.name)) return;
      clearTimeout(timer);
      asked += 1;
      timer = setTimeout(ask, WAIT_MS, asked);
    });
  });
})();
