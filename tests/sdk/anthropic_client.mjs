// The official Node client against a running server: what to ask on standard input, what came on
// standard output, both JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../frontend/package.json", import.meta.url));
const { Anthropic, APIError } = require("@anthropic-ai/sdk");

const given = JSON.parse(readFileSync(0, "utf8"));
const { baseURL, apiKey } = given;
const settings = { baseURL, maxRetries: 0, timeout: 30_000 };
const client = new Anthropic({ ...settings, apiKey });

function asked(text, fields = {}) {
  const messages = [{ role: "user", content: text }];
  return { model: "default", max_tokens: 500, messages, ...fields };
}

function textOf(message) {
  return message.content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

const whole = await client.messages.create(asked(given.text));

let streamed = "";
const stream = client.messages.stream(asked(given.text));
stream.on("text", (piece) => {
  streamed += piece;
});
const final = await stream.finalMessage();

const called = await client.messages
  .stream(asked(given.call, { tools: [given.tool], temperature: 0 }))
  .finalMessage();
const { name, input } = called.content.find((block) => block.type === "tool_use");

const { messages, model } = asked("hi");
const counted = await client.messages.countTokens({ model, messages });

let missing = null;
try {
  await client.messages.create(asked("hi", { model: "claude-sonnet-9" }));
} catch (error) {
  if (!(error instanceof APIError)) throw error;
  missing = { status: error.status, type: error.type, hasRequestId: Boolean(error.requestID) };
}

const withToken = new Anthropic({ ...settings, apiKey: null, authToken: apiKey });

console.log(
  JSON.stringify({
    whole: textOf(whole),
    stopReason: whole.stop_reason,
    streamed,
    final: textOf(final),
    use: { name, input },
    toolReason: called.stop_reason,
    counted: counted.input_tokens,
    missing,
    withToken: textOf(await withToken.messages.create(asked("hi"))),
  }),
);
