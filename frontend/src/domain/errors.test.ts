import { describe, expect, it } from "vitest";

import { CallError, errorFrom, errorOf, unanswered } from "./errors";

describe("errorFrom", () => {
  it("takes the server's own words", () => {
    const said = {
      code: "busy",
      message: "Too many.",
      param: "parts",
      retryable: true,
      retry_after_s: 5,
    };
    const error = errorFrom(429, { error: said });
    expect(errorOf(error)).toEqual(said);
    expect(error.isUnanswered).toBe(false);
  });

  it("takes a proxy's 502 to 504 for no answer", () => {
    for (const status of [502, 503, 504]) {
      expect(errorFrom(status, null)).toMatchObject({ isUnanswered: true, retryable: true });
    }
    const said = { error: { code: "unavailable", message: "Not now." } };
    expect(errorFrom(503, said)).toMatchObject({ isUnanswered: false, code: "unavailable" });
  });

  it("makes the best of bodies of another shape", () => {
    for (const body of [null, "text", [], {}, { error: 3 }, { error: { message: 5 } }]) {
      expect(errorFrom(500, body)).toMatchObject({ code: "failed", message: "HTTP 500" });
      expect(errorFrom(401, body).code).toBe("signed_out");
    }
  });
});

it("errorOf shows whatever was thrown", () => {
  expect(errorOf(unanswered())).toMatchObject({ code: "offline", retryable: true });
  expect(errorOf(new TypeError("x"))).toMatchObject({ code: "failed", message: "x" });
  expect(errorOf("y")).toMatchObject({ code: "failed", message: "y" });
  expect(unanswered()).toBeInstanceOf(CallError);
});
