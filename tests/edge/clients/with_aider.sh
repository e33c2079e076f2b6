#!/bin/sh
# What aider asks: an edit in each of two formats, streamed and whole, and a question.
set -eu
project=$(mktemp -d)
trap 'rm -r "$project"' EXIT
cd "$project"
ask() {
    printf 'total = 0\n' >cart.py
    aider --model openai/default --no-git --yes-always --no-check-update --analytics-disable \
        --no-show-model-warnings --no-show-release-notes --no-pretty --map-tokens 0 "$@" cart.py
}
edit='cart.py
```
<<<<<<< SEARCH
total = 0
=======
sum = 0
>>>>>>> REPLACE
```'
ask --edit-format diff --message "$edit"
ask --edit-format diff --no-stream --message "$edit"
ask --edit-format whole --message 'cart.py
```
total = 1
```'
ask --chat-mode ask --message '<think>Let me look.</think>It is a cart.'
