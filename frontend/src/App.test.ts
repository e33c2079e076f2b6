// @vitest-environment jsdom
import { render, screen } from "@testing-library/svelte";
import { expect, test, vi } from "vitest";

import App from "./App.svelte";
import { FakeApp } from "./dev/fake.svelte";

vi.mock("./routes/Settings.svelte", () => {
  throw new Error("no such chunk");
});

test("settings that can't be loaded say so and offer the page anew", async () => {
  history.replaceState(null, "", "/settings/keys");
  render(App, { app: new FakeApp() });
  const link = await screen.findByText<HTMLAnchorElement>("Retry");
  expect(link.pathname).toBe("/settings/keys");
  expect(link.target).toBe("_self"); // by the browser, not within the app
});
