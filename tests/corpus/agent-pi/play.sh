#!/bin/sh
# Play the log that the question names.
exec cat "$LOGS/$(tail -n 1).jsonl"
