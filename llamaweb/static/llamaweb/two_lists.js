// The hint above each of Django's two lists has a label, but no role that may have one.
addEventListener("load", () =>
  setTimeout(() => {
    for (const hint of document.querySelectorAll(".selector .help-tooltip[aria-label]")) {
      hint.setAttribute("role", "img");
    }
  }),
);
