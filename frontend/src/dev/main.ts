import { mount } from "svelte";

import App from "../App.svelte";
import "../styles/tokens.css";
import "../styles/base.css";
import "../styles/controls.css";
import "../styles/icons.css";
import "../styles/prose.css";
import { FakeApp } from "./fake.svelte";
import { conversations } from "./fixtures";
import { SCENES } from "./scenes";

const query = new URLSearchParams(location.search);
const scene = query.get("scene") ?? "long";
const app = new FakeApp();
app.conversations.rows = conversations(14);
app.account.setPreferences({
  theme: null,
  language: (query.get("language") ?? "") as "" | "en" | "de",
});
app.open("c2");
history.replaceState(null, "", query.get("path") ?? "/c/c2");
SCENES[scene]?.(app);
if (app.chat.id === null) {
  history.replaceState(null, "", "/");
}
// To be played with from the console.
Object.assign(window, { app });
const target = document.getElementById("app");
if (target !== null) {
  mount(App, { target, props: { app } });
}
