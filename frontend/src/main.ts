import { mount } from "svelte";

import App from "./App.svelte";
import { createApp } from "./stores/app.svelte";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/icons.css";
import "./styles/prose.css";
import type { MeOut } from "./types/api";

const target = document.getElementById("app");
const boot = document.getElementById("boot");
if (target === null || boot === null) {
  throw new Error("the page has no element #app or #boot");
}
mount(App, { target, props: { app: createApp(JSON.parse(boot.textContent) as MeOut) } });
