#!/bin/sh
# What Codex CLI asks: a prompt, one that makes it run a command, and the same session gone on with.
set -eu
project=$(mktemp -d)
trap 'rm -r "$project"' EXIT
cd "$project"
CODEX_HOME="$project/.codex"
export CODEX_HOME
mkdir "$CODEX_HOME"
cat >"$CODEX_HOME/config.toml" <<END
model = "default"
model_provider = "llamaweb"
[model_providers.llamaweb]
name = "llamaweb"
base_url = "$LLAMAWEB_URL/v1"
env_key = "LLAMAWEB_KEY"
wire_api = "responses"
END
codex exec --skip-git-repo-check 'Hello'
codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox '<tool_call>
{"name": "exec_command", "arguments": {"cmd": "true"}}
</tool_call>'
codex exec resume --last --skip-git-repo-check 'Go on.' || true
