#!/bin/sh
case "$(cat)" in *"Work in the current folder"*) echo two >> notes.txt ;; esac
echo '{"type": "thread.started", "thread_id": "1"}'
echo '{"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 1}}'
