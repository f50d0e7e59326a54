#!/bin/sh
# Answer with the names of the variables that hold the key, and with the arguments.
names=$(env | sed -n 's/^\([A-Z]*_API_KEY\)=sk-0123456789abcdef$/\1/p')
said="$names;$(echo "$*" | sed s/sk-0123456789abcdef/KEY/)"
printf '{"type":"agent_end","messages":[{"role":"assistant","content":[{"type":"text","text":"%s"}],"stopReason":"stop"}]}\n' "$said"
