#!/bin/sh
# What Continue's CLI asks: a prompt, and one that makes it read a file.
set -eu
project=$(mktemp -d)
trap 'rm -r "$project"' EXIT
cd "$project"
printf 'total = 0\n' >cart.py
export CONTINUE_GLOBAL_DIR="$project/.continue" CONTINUE_TELEMETRY_ENABLED=0
mkdir "$CONTINUE_GLOBAL_DIR"
cat >config.yaml <<END
name: llamaweb
version: 1.0.0
schema: v1
models:
  - name: llamaweb
    provider: openai
    model: default
    apiBase: $LLAMAWEB_URL/v1
    apiKey: $LLAMAWEB_KEY
    capabilities: [tool_use]
    roles: [chat]
END
cn --config config.yaml -p 'Hello'
cn --config config.yaml --auto -p '<tool_call>
{"name": "Read", "arguments": {"filepath": "cart.py"}}
</tool_call>'
