#!/bin/sh
# Runs a command and shows its output only where it fails. usage: quiet.sh command [argument ...]
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" >"$log" 2>&1 && exit 0
status=$?
cat "$log" >&2
exit $status
