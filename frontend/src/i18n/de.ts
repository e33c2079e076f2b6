import type { Catalogue } from "./en";

export const de: Catalogue = {
  tagline: "Sprachmodelle auf dem eigenen Rechner, hinter der OpenAI-API.",
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
  address: "Adresse für Clients",
  makeKey: "Schlüssel anlegen",
  makeKeyHint: "Auf dem Server, im Ordner des Programms. Der Schlüssel wird einmal gezeigt.",
  keyTitle: "Erstes Konto und Schlüssel",
  ask: "Etwas fragen",
  askHint: "Jeder Client der OpenAI-API passt. YOUR_KEY durch den Schlüssel ersetzen.",
  askTitle: "Antwort als Stream",
  copy: "Kopieren",
  copied: "Kopiert",
  copyFailed: "Text zum Kopieren markieren",
  example: "Sag Hallo in fünf Wörtern.",
  more: "Mehr",
  admin: "Verwaltung",
  description: "API-Beschreibung",
};
