import { expect, it } from "vitest";

import { frameFrom } from "./frames";

it("takes the frames it knows", () => {
  expect(frameFrom('{"type":"pong","n":3}')).toEqual({ type: "pong", n: 3 });
  for (const text of ["", "{", "null", "[]", "1", '{"n":1}', '{"type":"other"}', '{"type":{}}']) {
    expect(frameFrom(text)).toBeNull();
  }
});
