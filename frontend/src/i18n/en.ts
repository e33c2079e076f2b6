/** Every text of the interface; other languages have exactly these keys. */
export const en = {
  tagline: "Chat and inference on your own machine.",
  state: {
    checking: "Looking for the server",
    ready: "Ready",
    starting: "Starting",
    unreachable: "Not reachable",
  },
  stateDetail: {
    checking: "One moment.",
    ready: "A model is loaded and answers requests.",
    starting: "The model is being loaded.",
    unreachable: "The server doesn't answer. This page keeps trying.",
  },
  model: "Model",
  models: "Models",
  modelNeedsKey: "Listed for those who have an API key",
  address: "Address",
  tryIt: "Try it",
  tryItHint: "Any client of the OpenAI API works. Put your API key in place of YOUR_KEY.",
  makeKey: "No key yet? On the server:",
  copy: "Copy",
  copied: "Copied",
  copyFailed: "Select the text to copy it",
  copyLabel: "Copy the example",
  copyKeyLabel: "Copy the commands",
  example: "Say hello in five words.",
  admin: "Administration",
  source: "Application interface",
} as const;

type Texts<T> = { [K in keyof T]: T[K] extends string ? string : Texts<T[K]> };

export type Catalogue = Texts<typeof en>;
