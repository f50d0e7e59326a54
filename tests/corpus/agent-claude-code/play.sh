#!/bin/sh
# Play the log that the question names.
name=$(tail -n 1)
[ "$name" = crash ] && { echo "Error: not signed in" >&2; exit 1; }
exec cat "$LOGS/$name.jsonl"
