// @vitest-environment jsdom
import { fireEvent, render, screen, within } from "@testing-library/svelte";
import { tick } from "svelte";
import { beforeEach, expect, test, vi } from "vitest";

import { FakeApp } from "../../dev/fake.svelte";
import { me } from "../../dev/fixtures";
import Stage from "../../dev/Stage.svelte";
import { SCENES } from "../../dev/scenes";
import ModelChoice from "../chat/ModelChoice.svelte";

// What browsers do with a popover, as far as the list sees it.
beforeEach(() => {
  const told = (node: HTMLElement, newState: string) =>
    node.dispatchEvent(Object.assign(new Event("toggle"), { newState }));
  HTMLElement.prototype.showPopover = function (this: HTMLElement) {
    this.removeAttribute("popover"); // by which jsdom hides it
    told(this, "open");
  };
  HTMLElement.prototype.hidePopover = function (this: HTMLElement) {
    told(this, "closed");
  };
  Element.prototype.scrollIntoView = vi.fn();
});

async function setUp(scene = "models", language = "en") {
  const app = new FakeApp();
  SCENES[scene]?.(app);
  const said: string[] = [];
  render(Stage, { app, of: ModelChoice, given: { chat: app.chat }, language, said });
  await tick();
  return { app, said, button: screen.getByRole("button") };
}

async function opened(scene?: string, language?: string) {
  const made = await setUp(scene, language);
  await fireEvent.click(made.button);
  await tick();
  const field = screen.getByRole("combobox");
  return { ...made, field, list: screen.getByRole("listbox") };
}

const options = () => screen.getAllByRole("option").map((node) => node.textContent);
const activeName = (field: HTMLElement) =>
  document.getElementById(field.getAttribute("aria-activedescendant") ?? "")?.querySelector(".name")
    ?.textContent;
const press = (field: HTMLElement, key: string) => fireEvent.keyDown(field, { key });

test("the button says which model is next and how it stands", async () => {
  const { app, button } = await setUp("loading");
  expect(button.getAttribute("aria-label")).toBe("Model: mistral-small-24b");
  expect(button.textContent).toContain("42%");
  expect(button.getAttribute("aria-expanded")).toBe("false");
  app.chat.modelName = "gone";
  await tick();
  expect(button.getAttribute("aria-label")).toBe("Model: gone");
  expect(button.title).toBe("doesn't exist any more");
});

test("models are listed by whether they answer now, each with what is known of it", async () => {
  const { list, button } = await opened();
  expect(button.getAttribute("aria-expanded")).toBe("true");
  const groups = within(list).getAllByRole("group");
  expect(groups.map((group) => within(group).getAllByRole("option").length)).toEqual([1, 4, 2]);
  expect(within(list).getByRole("group", { name: "Loaded" })).toBe(groups[0]);
  const [loaded, rests, comes, waits] = screen.getAllByRole("option");
  expect(loaded?.textContent).toMatch(/qwen3-8b-instruct.*default.*Q4_K_M · 32,768 tokens/s);
  expect(loaded?.getAttribute("aria-selected")).toBe("true");
  expect(
    within(loaded as HTMLElement)
      .getAllByRole("img")
      .map((icon) => icon.title),
  ).toEqual(["Tools", "Reasoning"]);
  expect(rests?.textContent).toContain("loads with the next message");
  expect(rests?.textContent).toContain("gpt-small");
  expect(comes?.textContent).toContain("42% loaded");
  expect(comes?.querySelector("progress")?.value).toBe(0.42);
  expect(waits?.textContent).toContain(
    "waits for memory: qwen3-8b-instruct is answering (2), another model is pinned",
  );
});

test("the arrow keys go round from the chosen one, and Enter takes it", async () => {
  const { app, field } = await opened();
  expect(document.activeElement).toBe(field);
  expect(activeName(field)).toBe("qwen3-8b-instruct");
  await press(field, "ArrowUp");
  expect(activeName(field)).toBe("broken");
  await press(field, "ArrowDown");
  await press(field, "ArrowDown");
  expect(activeName(field)).toBe("gemma-3-12b");
  await fireEvent.keyDown(field, { key: "Enter", isComposing: true });
  expect(app.chat.modelName).toBe("");
  await press(field, "Enter");
  expect(app.chat.modelName).toBe("gemma-3-12b");
  expect(screen.queryByRole("listbox")).toBeNull();
});

test("what is typed finds names, aliases and tags, and says how many", async () => {
  const { app, field } = await opened();
  await fireEvent.input(field, { target: { value: "GPT" } });
  expect(options()).toHaveLength(1);
  expect(activeName(field)).toBe("gemma-3-12b");
  expect(screen.getByRole("status").textContent.trim()).toBe("1 model");
  await fireEvent.input(field, { target: { value: "nothing like it" } });
  expect(screen.queryAllByRole("option")).toEqual([]);
  expect(field.hasAttribute("aria-activedescendant")).toBe(false);
  expect(screen.getByText("No model matches.")).toBeTruthy();
  await press(field, "Enter");
  expect(app.chat.modelName).toBe("");
});

test("a click takes a model; the page's keys are left alone meanwhile", async () => {
  const { app, field } = await opened();
  const heard = vi.fn();
  document.addEventListener("keydown", heard);
  await press(field, "?");
  document.removeEventListener("keydown", heard);
  expect(heard).not.toHaveBeenCalled();
  const option = screen.getByRole("option", { name: /voxtral-mini/ });
  await fireEvent.click(option);
  expect(app.chat.modelName).toBe("voxtral-mini");
});

test("progress moves while one looks, and the end of it is said", async () => {
  const { app, said } = await opened("loading");
  const change = (fields: object) => {
    const models = app.account.models.map((one) =>
      one.name === "mistral-small-24b" ? { ...one, ...fields } : one,
    );
    app.account.me = me({ models });
    return tick();
  };
  await change({ load_progress: 0.8 });
  const option = screen.getByRole("option", { name: /mistral/ });
  expect(option.querySelector("progress")?.value).toBe(0.8);
  await change({ load_progress: null });
  expect(option.textContent).toContain("the model mistral-small-24b is being loaded");
  expect(option.querySelector("progress")).toBeNull();
  expect(said).toEqual([]);
  await change({ state: "loaded", is_ready: true, reason: "", load_progress: null });
  expect(said).toEqual(["mistral-small-24b is loaded"]);
});

test("in German, too", async () => {
  const { field } = await opened("models", "de");
  expect(field.getAttribute("aria-label")).toBe("Modelle suchen");
  expect(screen.getByRole("group", { name: "Gerade nicht verfügbar" })).toBeTruthy();
  expect(screen.getByRole("option", { name: /llama/ }).textContent).toContain(
    "wartet auf Speicher: qwen3-8b-instruct antwortet gerade (2)",
  );
});

test("with one model there is nothing to choose, unless the chat's own is gone", async () => {
  const app = new FakeApp();
  app.account.me = me({ models: me().models.slice(0, 1) });
  render(Stage, { app, of: ModelChoice, given: { chat: app.chat } });
  expect(screen.queryByRole("button")).toBeNull();
  app.chat.modelName = "gone";
  await tick();
  expect(screen.getByRole("button", { name: "Model: gone" })).toBeTruthy();
});
