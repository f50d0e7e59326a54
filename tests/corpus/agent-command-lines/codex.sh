#!/bin/sh
{ echo "codex"; printf '  <%s>\n' "$@"; sed 's/^/  | /'; echo; } >> "$ASKED"
echo '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"Done."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'
