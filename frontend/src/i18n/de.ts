import type { Catalogue } from "./en";

export const de: Catalogue = {
  tagline: "Chat und Inferenz auf dem eigenen Rechner.",
  state: {
    checking: "Server wird gesucht",
    ready: "Bereit",
    starting: "Startet",
    unreachable: "Nicht erreichbar",
  },
  stateDetail: {
    checking: "Einen Augenblick.",
    ready: "Ein Modell ist geladen und beantwortet Anfragen.",
    starting: "Das Modell wird geladen.",
    unreachable: "Der Server antwortet nicht. Diese Seite versucht es weiter.",
  },
  model: "Modell",
  models: "Modelle",
  modelNeedsKey: "Sichtbar mit einem API-Schlüssel",
  address: "Adresse",
  tryIt: "Ausprobieren",
  tryItHint: "Jeder Client der OpenAI-API passt. YOUR_KEY durch den eigenen Schlüssel ersetzen.",
  makeKey: "Noch kein Schlüssel? Auf dem Server:",
  copy: "Kopieren",
  copied: "Kopiert",
  copyFailed: "Text zum Kopieren markieren",
  copyLabel: "Beispiel kopieren",
  copyKeyLabel: "Befehle kopieren",
  example: "Sag Hallo in fünf Wörtern.",
  admin: "Verwaltung",
  source: "Schnittstelle",
};
