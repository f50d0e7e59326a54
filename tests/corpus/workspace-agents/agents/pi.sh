#!/bin/sh
case "$(cat; echo "$@")" in *"Work in the current folder"*) echo two >> notes.txt ;; esac
echo '{"type": "agent_start"}'
echo '{"type": "agent_end", "messages": []}'
