#!/bin/sh
# Runs every fuzz target of the module for FUZZ_TIME each, one after the other.
set -eu
go=${GO:-go}
time=${FUZZ_TIME:-20s}
"$go" list ./... | while read -r package; do
	"$go" test -list '^Fuzz' "$package" 2>/dev/null | grep '^Fuzz' | while read -r target; do
		printf '%s %s\n' "$package" "$target"
		"$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" </dev/null
	done
done
