import { expect, test } from "vitest";

import { chatPath, routeOf } from "./path";

test("the app's own paths", () => {
  expect(routeOf("/")).toEqual({ name: "chat", id: null });
  expect(routeOf("/c/01J-ab")).toEqual({ name: "chat", id: "01J-ab" });
  expect(routeOf("/settings")).toEqual({ name: "settings", section: "appearance" });
  expect(routeOf("/settings/keys")).toEqual({ name: "settings", section: "keys" });
});

test.each(["/admin/", "/c/", "/c/a/b", "/c/a%20b", "/settings/", "/settings/x", "/v1/models"])(
  "%s is somebody else's",
  (path) => expect(routeOf(path)).toBeNull(),
);

test("a chat's path leads back to it", () => {
  expect(routeOf(chatPath("abc"))).toEqual({ name: "chat", id: "abc" });
  expect(routeOf(chatPath(null))).toEqual({ name: "chat", id: null });
});
