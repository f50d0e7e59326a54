#!/bin/sh
# Count the messages of a session.
echo "$2" >> "said-$1.txt"
echo "$(grep -c . < "said-$1.txt"): $2"
