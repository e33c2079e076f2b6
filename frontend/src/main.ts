import { mount } from "svelte";

import App from "./App.svelte";
import { catalogueFor } from "./i18n";
import "./styles/tokens.css";
import "./styles/base.css";

const target = document.getElementById("app");
if (target === null) {
  throw new Error("the page has no element #app");
}
const { language, words } = catalogueFor(navigator.languages);
document.documentElement.lang = language;
mount(App, { target, props: { words, origin: location.origin } });
