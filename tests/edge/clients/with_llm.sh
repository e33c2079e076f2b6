#!/bin/sh
# What llm asks: a prompt, streamed and whole, the chat gone on with, a tool, a form.
set -eu
LLM_USER_PATH=$(mktemp -d)
export LLM_USER_PATH
trap 'rm -r "$LLM_USER_PATH"' EXIT
cat >"$LLM_USER_PATH/extra-openai-models.yaml" <<END
- model_id: llamaweb
  model_name: default
  api_base: $LLAMAWEB_URL/v1
  api_key_name: llamaweb
  supports_tools: true
  supports_schema: true
END
llm keys set llamaweb --value "$LLAMAWEB_KEY"
llm -m llamaweb -s 'Be brief.' 'Hello'
llm -c 'Go on.'
llm -m llamaweb --no-stream 'Hello'
llm -c --no-stream 'Go on.'
call='<tool_call>
{"name": "weather", "arguments": {"city": "Zurich"}}
</tool_call>'
weather='def weather(city: str) -> str:
    "The weather of a city."
    return "Rain."'
llm -m llamaweb --functions "$weather" "$call"
llm -m llamaweb --no-stream --functions "$weather" "$call"
llm -m llamaweb --schema 'city str' '{"city": "Zurich"}'
llm -m llamaweb --no-stream --schema 'city str' '{"city": "Zurich"}'
llm -m llamaweb -o temperature 0 -o max_tokens 20 -o seed 7 '<think>Let me look.</think>Well.'
llm -c 'Go on.'
