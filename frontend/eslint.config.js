import js from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import globals from "globals";
import ts from "typescript-eslint";

import svelteConfig from "./svelte.config.js";

// routes → components → stores → services; domain and i18n are pure and stand below all.
const above = {
  domain: ["components", "stores", "services"],
  i18n: ["components", "stores", "services"],
  services: ["components", "stores"],
  stores: ["components"],
};

const arrows = Object.entries(above).map(([room, forbidden]) => ({
  files: [`src/${room}/**`],
  rules: {
    "no-restricted-imports": [
      "error",
      { patterns: forbidden.map((name) => ({ group: [`**/${name}/**`] })) },
    ],
  },
}));

export default ts.config(
  { ignores: ["dist/", "node_modules/"] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  { languageOptions: { globals: { ...globals.browser, ...globals.node } } },
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: ts.parser, svelteConfig } },
  },
  {
    rules: {
      // The strict content policy refuses inline styles; say so here, not in a browser.
      "svelte/no-inline-styles": "error",
      "svelte/no-at-html-tags": "error",
    },
  },
  {
    // Maps and sets of the stores are values: replaced in $state.raw, never changed.
    files: ["src/stores/**"],
    rules: { "svelte/prefer-svelte-reactivity": "off" },
  },
  ...arrows,
);
