// The official client for Node against chats and embeddings: what to ask on standard input, what
// came on standard output, both JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../frontend/package.json", import.meta.url));
const { OpenAI, APIError } = require("openai");

const given = JSON.parse(readFileSync(0, "utf8"));
const { baseURL, apiKey } = given;
const { chat, embeddings } = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 30_000 });
const model = "default";

function asked(text, fields = {}) {
  return { model, messages: [{ role: "user", content: text }], temperature: 0, ...fields };
}

function callsOf(message) {
  return message.tool_calls.map((call) => [call.function.name, call.function.arguments]);
}

async function failure(ask) {
  try {
    await ask();
  } catch (error) {
    if (!(error instanceof APIError)) throw error;
    const { status = null, type, code, message } = error;
    return { status, type, code, message };
  }
  return null;
}

const whole = await chat.completions.create(asked(given.text));
const streamed = await chat.completions.stream(asked(given.text)).finalChatCompletion();

const tools = { tools: [given.tool] };
const called = await chat.completions.create(asked(given.call, tools));
const calledInPieces = chat.completions.stream(asked(given.call, tools));

const input = [given.text, "other"];
const packed = await embeddings.create({ model, input });
const plain = await embeddings.create({ model, input, encoding_format: "float" });

let before = "";
const broken = await failure(async () => {
  const fields = { model: given.failing, stream: true };
  for await (const chunk of await chat.completions.create(asked(given.text, fields))) {
    before += chunk.choices[0]?.delta?.content ?? "";
  }
});

console.log(
  JSON.stringify({
    whole: whole.choices[0].message.content,
    streamed: streamed.choices[0].message.content,
    calls: callsOf(called.choices[0].message),
    callsInPieces: callsOf((await calledInPieces.finalChatCompletion()).choices[0].message),
    packed: packed.data.map((item) => item.embedding),
    plain: plain.data.map((item) => item.embedding),
    before,
    broken,
    brokenWhole: await failure(() =>
      chat.completions.create(asked(given.text, { model: given.failing })),
    ),
    missing: await failure(() => chat.completions.create(asked("hi", { model: "absent" }))),
  }),
);
