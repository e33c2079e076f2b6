// The official client for Node against the Responses API: `node responses.mjs BASE_URL KEY`.
// Prints what it heard as JSON.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(join(process.cwd(), 'package.json')));
const { default: OpenAI } = await import(pathToFileURL(require.resolve('openai')).href);

const [baseURL, apiKey] = process.argv.slice(2);
const { responses } = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const model = 'default';
const input = 'hello 😺';

const whole = await responses.create({ model, input });

const types = [];
let streamed = '';
let id = '';
for await (const event of await responses.create({ model, input, stream: true })) {
	types.push(event.type);
	if (event.type === 'response.created') id = event.response.id;
	if (event.type === 'response.output_text.delta') streamed += event.delta;
}

const resumed = [];
for await (const event of await responses.retrieve(id, { stream: true, starting_after: 3 })) {
	resumed.push(event.type);
}

const final = await responses.stream({ model, input }).finalResponse();
const retrieved = await responses.retrieve(final.id);
const next = await responses.create({ model, input: 'two', previous_response_id: final.id });
await responses.delete(final.id);
const deleted = await responses.retrieve(final.id).then(
	() => 200,
	(error) => error.status,
);

console.log(
	JSON.stringify({
		whole: whole.output_text,
		streamed,
		final: final.output_text,
		retrieved: retrieved.output_text ?? text(retrieved),
		types,
		resumed,
		next: next.output_text,
		deleted,
	}),
);

function text(response) {
	return response.output
		.flatMap((item) => (item.type === 'message' ? item.content : []))
		.map((part) => part.text)
		.join('');
}
