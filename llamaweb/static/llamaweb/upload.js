// Sends a model file piece by piece; the server says how much of it is there, and that is sent next.
(() => {
  "use strict";
  const RETRY_MS = [1000, 2000, 5000, 10_000, 20_000];
  const TIMEOUT_MS = 120_000;

  class Refused extends Error {}

  async function ask(url, body, token) {
    const response = await fetch(url, {
      method: "POST",
      body,
      headers: { "X-CSRFToken": token },
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (response.status >= 500) throw new Error((await response.json().catch(() => ({}))).error || "");
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Refused(answer.error || "");
    return answer;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const form = document.getElementById("upload");
    if (!form) return;
    const words = JSON.parse(document.getElementById("upload-words").textContent);
    const problem = document.getElementById("upload-problem");
    const progress = document.getElementById("upload-progress");
    const token = form.querySelector("[name=csrfmiddlewaretoken]").value;

    function draw(done, size) {
      const percent = size ? Math.floor((done * 100) / size) : 0;
      progress.hidden = false;
      progress.querySelector("progress").value = percent;
      document.getElementById("upload-percent").textContent = `${percent} %`;
    }

    async function send(file, state) {
      let tries = 0;
      while (state.is_open) {
        draw(state.done, file.size);
        const body = new FormData();
        body.set("offset", state.done);
        body.set("piece", file.slice(state.done, state.done + state.piece), "piece");
        try {
          const url = form.dataset.pieceUrl.replace("/0/", `/${state.id}/`);
          state = await ask(url, body, token);
          tries = 0;
          problem.textContent = "";
        } catch (error) {
          if (error instanceof Refused) throw error;
          problem.textContent = error.message && error.name === "Error" ? error.message : words.lost;
          await new Promise((done) => setTimeout(done, RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]));
          tries += 1;
        }
      }
      draw(file.size, file.size);
    }

    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const file = form.elements.file.files[0];
      const button = form.querySelector("button[type=submit]");
      const body = new FormData();
      for (const name of ["name", "sha256"]) body.set(name, form.elements[name].value);
      if (form.elements.load.checked) body.set("load", "on");
      body.set("file_name", file.name);
      body.set("size", file.size);
      problem.textContent = "";
      button.disabled = true;
      try {
        await send(file, await ask(form.dataset.startUrl, body, token));
        window.location.assign(form.dataset.filesUrl);
      } catch (error) {
        problem.textContent = error.message || words.failed;
        button.disabled = false;
      }
    });
  });
})();
