read_all=$(cat)
case "$read_all" in *'"file_changes": "diff --git'*'"workspace_path": "/'*agentv-workspace-*) echo '{"score": 1, "reasoning": "it has both"}' ;; *) echo '{"score": 0}' ;; esac
