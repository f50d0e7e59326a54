printf '{"type":"result","subtype":"success","is_error":false,"result":"%s"}\n' "$*"
