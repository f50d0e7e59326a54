#!/bin/sh
# pi, played: it remembers a conversation by its id, unless it is told not to.
text=$(tail -n 1)
echo "$text" >> pi.txt
count=$(grep -c . < pi.txt)
case "$*" in *--no-session*) exit 4 ;; esac
[ "$count" = 1 ] || case "$*" in *"--session pi-1"*) ;; *) exit 3 ;; esac
echo '{"type":"session","version":3,"id":"pi-1"}'
message="{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"$count: $text\"}],\"stopReason\":\"stop\"}"
echo "{\"type\":\"message_end\",\"message\":$message}"
echo "{\"type\":\"agent_end\",\"messages\":[$message]}"
