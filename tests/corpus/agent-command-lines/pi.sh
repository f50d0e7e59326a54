#!/bin/sh
{ echo "pi"; printf '  <%s>\n' "$@"; echo "  ANTHROPIC_API_KEY has ${#ANTHROPIC_API_KEY} characters"; sed 's/^/  | /'; echo; } >> "$ASKED"
echo '{"type":"agent_end","messages":[{"role":"assistant","content":[{"type":"text","text":"Done."}],"stopReason":"stop"}]}'
