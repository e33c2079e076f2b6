#!/bin/sh
# What Claude Code asks: a prompt, and one that makes it read a file.
set -eu
project=$(mktemp -d)
trap 'rm -r "$project"' EXIT
cd "$project"
printf 'total = 0\n' >cart.py
export ANTHROPIC_MODEL=default ANTHROPIC_AUTH_TOKEN="$LLAMAWEB_KEY" CLAUDE_CONFIG_DIR="$project/.claude"
export ANTHROPIC_DEFAULT_HAIKU_MODEL=default CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
unset ANTHROPIC_API_KEY
claude -p 'Hello'
claude -p --max-turns 2 "<tool_call>
{\"name\": \"Read\", \"arguments\": {\"file_path\": \"$project/cart.py\"}}
</tool_call>"
