/** Every text of the interface; other languages have exactly these keys. */
export const en = {
  tagline: "Language models on your own machine, behind the OpenAI API.",
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
  address: "Address for clients",
  makeKey: "Make a key",
  makeKeyHint: "On the server, in the folder of the program. The key is shown once.",
  keyTitle: "First account and key",
  ask: "Ask something",
  askHint: "Any client of the OpenAI API works. Put your key in place of YOUR_KEY.",
  askTitle: "Streamed answer",
  copy: "Copy",
  copied: "Copied",
  copyFailed: "Select the text to copy it",
  example: "Say hello in five words.",
  more: "More",
  admin: "Administration",
  description: "API description",
} as const;

type Texts<T> = { [K in keyof T]: T[K] extends string ? string : Texts<T[K]> };

export type Catalogue = Texts<typeof en>;
