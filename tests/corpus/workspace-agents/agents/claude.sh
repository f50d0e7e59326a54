#!/bin/sh
case "$(cat; echo "$@")" in *"Do not create"*) exit 1 ;; *"Work in the current folder"*) echo two >> notes.txt ;; esac
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "", "total_cost_usd": 0.01}'
