#!/bin/sh
# Claude Code, played: it remembers a conversation by its id.
id=claude-1
text=$(tail -n 1)
echo "$text" >> "$id.txt"
count=$(grep -c . < "$id.txt")
[ "$count" = 1 ] || case "$*" in *"--resume $id"*) ;; *) exit 3 ;; esac
echo "{\"type\":\"assistant\",\"message\":{\"id\":\"m$count\",\"content\":[{\"type\":\"text\",\"text\":\"$count: $text\"}]}}"
echo "{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"$count: $text\",\"session_id\":\"$id\",\"total_cost_usd\":0.1,\"duration_ms\":5}"
