#!/bin/sh
# Do what the question says: a line of shell.
eval "$(tail -n 1)"
