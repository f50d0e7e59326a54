# Add the last message to the notes of the workspace and show them all. Without the file `ready` the second turn fails.
message=$(echo "$2" | tail -n 1)
echo "$message" >> "$1/calls.txt"
[ "$message" = first ] || [ -f "$1/ready" ] || exit 3
echo "$message" >> notes.txt
tr '\n' ' ' < notes.txt
