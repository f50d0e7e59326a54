#!/bin/sh
# Note the command line, the folder if it is the project's, and the question; then answer.
{ echo "claude"; printf '  <%s>\n' "$@"; [ -f here.txt ] && cat here.txt; sed 's/^/  | /'; echo; } >> "$ASKED"
echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","usage":{"input_tokens":1,"output_tokens":1}}'
