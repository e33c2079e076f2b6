import { expect, it } from "vitest";

import { curlExample } from "./examples";

it("quotes a prompt for the shell", () => {
  const text = curlExample("http://127.0.0.1:8000", `it's "fine"`);
  expect(text).toContain("curl -N http://127.0.0.1:8000/v1/chat/completions \\\n");
  expect(text).toContain(String.raw`"content": "it'\''s \"fine\""`);
});
