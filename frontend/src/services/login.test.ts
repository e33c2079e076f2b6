// @vitest-environment jsdom
import { expect, it, vi } from "vitest";

import { goToLogin, signOut } from "./login";

it("comes back to the page that was left", () => {
  const assign = vi.fn();
  vi.stubGlobal("location", { pathname: "/c/1", search: "?a=1&b", assign });
  goToLogin();
  expect(assign).toHaveBeenCalledWith("/accounts/login/?next=%2Fc%2F1%3Fa%3D1%26b");
  vi.unstubAllGlobals();
});

it("signs out with the token of now, which another tab may have changed", () => {
  document.body.innerHTML = `<form id="sign-out" method="post" action="/accounts/logout/">
    <input type="hidden" name="csrfmiddlewaretoken" value="of-the-page"></form>`;
  document.cookie = "llamaweb_csrf=of-now";
  let sent: unknown = null;
  const submit = vi.spyOn(HTMLFormElement.prototype, "submit").mockImplementation(function (
    this: HTMLFormElement,
  ) {
    sent = new FormData(this).get("csrfmiddlewaretoken");
  });
  signOut();
  expect(sent).toBe("of-now");
  submit.mockRestore();
});
