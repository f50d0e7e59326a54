#!/bin/sh
# Count the messages of the user in a conversation that comes as one text.
said=$(cat)
number=$(echo "$said" | grep -c '^@\[User\]:')
[ "$number" = 0 ] && number=1
echo "$number: $(echo "$said" | tail -n 1)"
