/** A request for a shell, to `origin`; `prompt` is quoted for both JSON and the shell. */
export function curlExample(origin: string, prompt: string): string {
  const content = JSON.stringify(prompt).replaceAll("'", String.raw`'\''`);
  return [
    `curl -N ${origin}/v1/chat/completions \\`,
    `  -H "Authorization: Bearer YOUR_KEY" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d '{"stream": true, "messages": [`,
    `        {"role": "user", "content": ${content}}]}'`,
  ].join("\n");
}

/** How a person at the server makes the first account and key. */
export const KEY_COMMANDS = [
  ".venv/bin/python manage.py createsuperuser",
  ".venv/bin/python manage.py create_api_key USER --name laptop",
].join("\n");
