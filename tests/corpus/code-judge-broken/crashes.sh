echo half a result
echo looking >&2
echo "ValueError: no such table" >&2
exit 1
