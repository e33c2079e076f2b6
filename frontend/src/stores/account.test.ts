// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { ME } from "../domain/samples";
import { stubBrowser, type FakeServer } from "../services/fakes";
import { Rest } from "../services/rest";
import { AccountStore } from "./account.svelte";

let server: FakeServer;
let account: AccountStore;

beforeEach(() => {
  server = stubBrowser();
  account = new AccountStore(ME, new Rest(vi.fn()));
});
afterEach(() => {
  vi.unstubAllGlobals();
});

it("shows a preference at once and takes what was stored", async () => {
  server.answers = [{ status: 200, body: { theme: "dark", language: "de" } }];
  const stored = account.setPreferences({ theme: "dark", language: null });
  expect(account.me).toMatchObject({ theme: "dark", language: "" });
  await stored;
  expect(account.me).toMatchObject({ theme: "dark", language: "de", username: "alice" });
});

it("goes back to the old one when it wasn't", async () => {
  server.answers = [{ status: 400, body: { error: { code: "invalid", message: "" } } }];
  const stored = account.setPreferences({ theme: "dark", language: null });
  await expect(stored).rejects.toMatchObject({ code: "invalid" });
  expect(account.me.theme).toBe("system");
});

it("shows the last choice, and what is stored when none of several was taken", async () => {
  server.answers = ["lost"];
  const [one, two] = (["dark", "light"] as const).map((theme) =>
    account.setPreferences({ theme, language: null }),
  );
  await expect(one).rejects.toMatchObject({ code: "offline" });
  await expect(two).rejects.toMatchObject({ code: "offline" });
  expect(account.me.theme).toBe("system");
});

it("doesn't go back to an earlier choice when that is confirmed late", async () => {
  server.answers = [{ status: 200, body: { theme: "dark", language: "" } }, "never"];
  const first = account.setPreferences({ theme: "dark", language: null });
  void account.setPreferences({ theme: "light", language: null });
  await first;
  expect(account.me.theme).toBe("light");
});

it("says which password was wrong", async () => {
  const error = { code: "invalid", message: "No.", param: "current" };
  server.answers = [{ status: 400, body: { error } }];
  await expect(account.changePassword("a", "b")).rejects.toMatchObject({ param: "current" });
  expect(server.calls[0]).toMatchObject({ method: "POST", body: { current: "a", new: "b" } });
});

it("knows the addresses", async () => {
  server.answers = [{ status: 200, body: { num_ended: 2 } }];
  await account.keys();
  await account.createKey({
    name: "laptop",
    scopes: ["inference"],
    models: [],
    expires_at: null,
  });
  await account.revokeKey(3);
  await account.sessions();
  await account.endSession(4);
  expect(await account.endOtherSessions()).toBe(2);
  expect(server.calls.map(({ method, path }) => `${method} ${path}`)).toEqual([
    "GET /api/app/keys",
    "POST /api/app/keys",
    "DELETE /api/app/keys/3",
    "GET /api/app/sessions",
    "DELETE /api/app/sessions/4",
    "DELETE /api/app/sessions",
  ]);
});
