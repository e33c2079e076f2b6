// @vitest-environment jsdom
import { expect, it, vi } from "vitest";

import { goToLogin } from "./login";

it("comes back to the page that was left", () => {
  const assign = vi.fn();
  vi.stubGlobal("location", { pathname: "/c/1", search: "?a=1&b", assign });
  goToLogin();
  expect(assign).toHaveBeenCalledWith("/accounts/login/?next=%2Fc%2F1%3Fa%3D1%26b");
  vi.unstubAllGlobals();
});
