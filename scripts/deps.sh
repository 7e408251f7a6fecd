#!/bin/sh
# Makes sure that PostgreSQL's server programs, PgBouncer and a C compiler (for go
# test -race) are there, and installs what is missing where it knows how to. It
# does nothing if nothing is missing. It never creates or starts a database cluster
# or a pooler: internal/pgtest makes its own.
#
#   scripts/deps.sh                    install what is missing
#   scripts/deps.sh --find             print the folder of the server programs, or fail
#   scripts/deps.sh --find-pgbouncer   print the path of PgBouncer, or fail
set -eu

say() { printf '%s\n' "$*" >&2; }

holds_server() {
	[ -f "$1/postgres" ] && [ -x "$1/postgres" ] && [ -f "$1/initdb" ] && [ -x "$1/initdb" ]
}

# resolve prints a path with all symbolic links followed.
resolve() {
	path=$1
	while [ -L "$path" ]; do
		target=$(readlink "$path")
		case $target in
		/*) path=$target ;;
		*) path=$(dirname "$path")/$target ;;
		esac
	done
	printf '%s/%s\n' "$(cd -P "$(dirname "$path")" && pwd)" "$(basename "$path")"
}

# newest prints the existing folders among its arguments, newest version first:
# the numbers in the path decide.
newest() {
	for dir in "$@"; do
		[ -d "$dir" ] || continue
		printf '%s %s\n' "$(printf '%s' "$dir" | tr -cs '0-9' ' ')" "$dir"
	done | awk '{ n = NF; key = ""; for (i = 1; i < n; i++) key = key sprintf("%08d", $i); print key "\t" $n }' |
		sort -r | cut -f 2
}

# find_server looks in the same places in the same order as
# internal/pgtest/binaries.go; a test compares the two.
find_server() {
	if [ -n "${RUNLANE_PG_BIN:-}" ]; then
		holds_server "$RUNLANE_PG_BIN" || return 1
		printf '%s\n' "$RUNLANE_PG_BIN"
		return 0
	fi
	for program in initdb postgres; do
		path=$(command -v "$program" 2>/dev/null) || continue
		dir=$(dirname "$(resolve "$path")")
		if holds_server "$dir"; then
			printf '%s\n' "$dir"
			return 0
		fi
	done
	if dir=$(pg_config --bindir 2>/dev/null) && holds_server "$dir"; then
		printf '%s\n' "$dir"
		return 0
	fi
	for pattern in \
		'/usr/lib/postgresql/*/bin' \
		'/usr/pgsql-*/bin' \
		'/usr/local/pgsql/bin' \
		'/opt/homebrew/opt/postgresql*/bin' \
		'/usr/local/opt/postgresql*/bin' \
		'/Applications/Postgres.app/Contents/Versions/*/bin'; do
		# shellcheck disable=SC2086 # the pattern is meant to be expanded
		for dir in $(newest $pattern); do
			if holds_server "$dir"; then
				printf '%s\n' "$dir"
				return 0
			fi
		done
	done
	return 1
}

# find_bouncer looks in the same places in the same order as
# internal/pgtest/bouncer.go; a test compares the two.
find_bouncer() {
	if [ -n "${RUNLANE_PGBOUNCER:-}" ]; then
		command -v "$RUNLANE_PGBOUNCER" 2>/dev/null
		return
	fi
	command -v pgbouncer 2>/dev/null && return 0
	for dir in /usr/sbin /usr/local/sbin /usr/local/bin /opt/homebrew/bin; do
		command -v "$dir/pgbouncer" 2>/dev/null && return 0
	done
	return 1
}

have_compiler() { command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1; }

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

apt_install() {
	# A package list can be missing (images ship without) or too old.
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" && return 0
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

install_debian() {
	if ! find_server >/dev/null; then
		apt_install postgresql-common
		# The server's package would create a cluster and start it. The line is
		# taken out again: the machine's owner may want one later.
		conf=/etc/postgresql-common/createcluster.conf
		mark='# for the installation by runlane'
		printf 'create_main_cluster = false\n%s\n' "$mark" | as_root tee -a "$conf" >/dev/null
		apt_install postgresql postgresql-client || true # looked at below
		as_root sed -i -e "N;/\n$mark\$/d;P;D" "$conf"
	fi
	find_bouncer >/dev/null || install_bouncer
	have_compiler || apt_install gcc libc6-dev
}

# The package would start a pooler, now and whenever the machine starts. Packages ask
# policy-rc.d whether they may; where there is one, it has its say.
install_bouncer() {
	policy=/usr/sbin/policy-rc.d
	if [ -e "$policy" ]; then
		apt_install pgbouncer || true # looked at below
	else
		trap 'as_root rm -f "$policy"' EXIT
		trap 'exit 1' HUP INT TERM
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
		apt_install pgbouncer || true
		as_root rm -f "$policy"
		trap - EXIT HUP INT TERM
	fi
	if command -v systemctl >/dev/null 2>&1; then
		as_root systemctl disable pgbouncer.service >/dev/null 2>&1 || true
	else
		as_root update-rc.d pgbouncer disable >/dev/null 2>&1 || true
	fi
}

# Untested: no machine with Homebrew was at hand.
install_homebrew() {
	find_server >/dev/null || brew install postgresql@17
	find_bouncer >/dev/null || brew install pgbouncer
	have_compiler || say "deps: for go test -race, run: xcode-select --install"
}

case ${1:-} in
--find)
	find_server
	exit
	;;
--find-pgbouncer)
	find_bouncer
	exit
	;;
'') ;;
*)
	say "usage: $0 [--find | --find-pgbouncer]"
	exit 2
	;;
esac

if [ -n "${RUNLANE_PG_BIN:-}" ] && ! holds_server "$RUNLANE_PG_BIN"; then
	say "deps: RUNLANE_PG_BIN=$RUNLANE_PG_BIN does not hold the programs postgres and initdb: correct it or unset it."
	exit 1
fi
if find_server >/dev/null && find_bouncer >/dev/null && have_compiler; then
	exit 0
fi
if command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1; }; then
	install_debian
elif command -v brew >/dev/null 2>&1; then
	install_homebrew
fi
if ! find_server >/dev/null; then
	say "deps: no PostgreSQL server programs found: install PostgreSQL 15 or newer with your package manager, or set RUNLANE_PG_BIN to the folder that holds postgres and initdb."
	exit 1
fi
if ! find_bouncer >/dev/null; then
	say "deps: no PgBouncer found: install it with your package manager, or set RUNLANE_PGBOUNCER to the path of the program pgbouncer."
	exit 1
fi
have_compiler || say "deps: no C compiler found: install gcc or clang to run the tests with -race."
