// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { stubBrowser, type FakeServer } from "./fakes";
import { Rest } from "./rest";

let server: FakeServer;
const signedOut = vi.fn();
const rest = new Rest(signedOut);

beforeEach(() => {
  server = stubBrowser();
  signedOut.mockClear();
  document.cookie = "other=1";
  document.cookie = "llamaweb_csrf=to%3Dken";
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it("sends the CSRF token with everything that changes something", async () => {
  server.answers = [{ status: 200, body: { a: 1 } }];
  expect(await rest.get("me")).toEqual({ a: 1 });
  await rest.call("POST", "turns", { b: 2 });
  const [read, write] = server.calls;
  expect(read).toMatchObject({ method: "GET", path: "/api/app/me", body: undefined });
  expect(read?.headers).not.toHaveProperty("X-CSRFToken");
  expect(write).toMatchObject({ method: "POST", path: "/api/app/turns", body: { b: 2 } });
  expect(write?.headers["X-CSRFToken"]).toBe("to=ken");
});

it("has nothing to say for 204", async () => {
  server.answers = [{ status: 204 }];
  expect(await rest.call("DELETE", "keys/1")).toBeUndefined();
});

it("throws what the server said", async () => {
  server.answers = [
    { status: 400, body: { error: { code: "invalid", message: "No.", param: "x" } } },
  ];
  await expect(rest.get("x")).rejects.toMatchObject({ code: "invalid", param: "x" });
  expect(signedOut).not.toHaveBeenCalled();
});

it("says that nobody is signed in", async () => {
  server.answers = [{ status: 401, body: { error: { code: "signed_out", message: "Sign in." } } }];
  await expect(rest.get("me")).rejects.toMatchObject({ code: "signed_out" });
  expect(signedOut).toHaveBeenCalledOnce();
});

it("tells no answer from a refusal", async () => {
  server.answers = ["lost"];
  await expect(rest.get("me")).rejects.toMatchObject({ code: "offline", isUnanswered: true });
  server.answers = [{ status: 502 }];
  await expect(rest.get("me")).rejects.toMatchObject({ isUnanswered: true });
});

it("waits no longer than its deadline", async () => {
  server.answers = ["never"];
  const answer = rest.call("POST", "turns", {}, 20);
  await expect(answer).rejects.toMatchObject({ code: "late", isUnanswered: true });
});
