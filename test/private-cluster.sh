# private-cluster.sh: shell functions that make a temporary PostgreSQL
# installation and clusters in it.
#
# Sourced by test/run-tests, test/demo and the benchmarks.  All files lie in one
# temporary directory, PC_DIR, which is removed on exit.  The machine's installed
# files, servers and settings stay as they are.
#
# A server loads extensions from its own directories, and finds these relative to
# its binary.  So PC_DIR holds a complete installation under the paths that
# pg_config prints: the binaries are copies (the server resolves symbolic links to
# itself), all other files are links, and make install DESTDIR=$PC_DIR adds
# gpusort.
#
#	pc_needs			install the Debian packages that are missing (test/needs)
#	pc_begin NAME		make PC_DIR; remove it on exit
#	pc_install			make the installation, with gpusort; sets PC_BIN
#	pc_start [NAME PORT] < CONF	make a cluster with these lines of postgresql.conf
#						and start it; sets PGHOST, PGPORT, PGUSER, PGDATABASE, PATH
#	pc_copy PATH...		copy files of this tree to PC_DIR/src, for the server's user
#	pc_own PATH...		make the server's user the owner of files
#	pc_as COMMAND...	run a command as the server's user
#	pc_perl [NAME=VALUE...] COMMAND...	run a command as the server's user, in the
#						environment that PostgreSQL's test modules and t/lib need
#	pc_keep				keep PC_DIR on exit
#
# The server's user is the caller.  PostgreSQL refuses to run as root: then it is
# the user postgres if there is one, otherwise nobody.
#
# Environment: PG_CONFIG, or PG_MAJOR for one of Debian's installed versions.

PG_CONFIG=${PG_CONFIG:-${PG_MAJOR:+/usr/lib/postgresql/$PG_MAJOR/bin/}pg_config}
# The GPU library takes minutes to compile.  make install takes one that is already built.
export GPU=${GPU:-no}
PC_DIR=
PC_BIN=
PC_RUNNING=
PC_KEEP=

pc_die()
{
	echo "$0: $*" >&2
	exit 1
}

pc_as()
{
	if [ "$(id -u)" != 0 ]; then
		"$@"
	else
		# the server's user may have no access to the current directory
		(cd "$PC_DIR" && HOME=$PC_DIR runuser -u "$PC_USER" -- "$@")
	fi
}

pc_own()
{
	[ "$(id -u)" != 0 ] || chown -R "$PC_USER" "$@"
}

# The server's user may have no access to the checkout.
pc_copy()
{
	mkdir -p "$PC_DIR/src" "$PC_DIR/out"
	cp -r --parents "$@" "$PC_DIR/src/"
	pc_own "$PC_DIR/src" "$PC_DIR/out"
}

pc_perl()
{
	local pgxs

	pgxs=$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")
	pc_as env PATH="$PC_BIN:$PATH" PERL5LIB="$pgxs/test/perl:$PC_DIR/src/t/lib" \
		PG_REGRESS="$pgxs/test/regress/pg_regress" \
		TESTDIR="$PC_DIR/out" TESTDATADIR="$PC_DIR/out/tmp_check" \
		TESTLOGDIR="$PC_DIR/out/log" TMPDIR="$PC_DIR" LANG=C.UTF-8 "$@"
}

pc_keep()
{
	PC_KEEP=1
}

pc_end()
{
	local rc=$? name

	trap - EXIT INT TERM HUP
	for name in $PC_RUNNING; do
		pc_as "$PC_BIN/pg_ctl" -D "$PC_DIR/$name" -m immediate -w stop >/dev/null 2>&1
	done
	if [ -n "$PC_KEEP" ]; then
		echo "kept: $PC_DIR"
	elif [ -n "$PC_DIR" ]; then
		rm -rf "$PC_DIR"
	fi
	exit $rc
}

pc_has_needs()
{
	local pgxs

	# one command -v for each name: with several names it succeeds if one is found
	pgxs=$("$PG_CONFIG" --pgxs 2>/dev/null) && [ -f "$pgxs" ] &&
		command -v cc >/dev/null && command -v g++ >/dev/null &&
		perl -MIPC::Run -MTest::More -e 1 2>/dev/null
}

pc_needs()
{
	pc_has_needs || test/needs test || pc_die "what the tests need is missing"
	pc_has_needs ||
		pc_die "missing: server headers of $PG_CONFIG, a C or C++ compiler, or the Perl modules IPC::Run and Test::More"
}

pc_begin()
{
	PC_USER=$(id -un)
	if [ "$(id -u)" = 0 ]; then
		PC_USER=nobody
		! id postgres >/dev/null 2>&1 || PC_USER=postgres
	fi
	# PC_DIR holds the server's socket, whose path has at most 107 bytes: TMPDIR must be short
	PC_DIR=$(mktemp -d "${TMPDIR:-/tmp}/gpusort-$1.XXXXXX") || exit 1
	trap pc_end EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	chmod 755 "$PC_DIR"
	pc_own "$PC_DIR"
}

pc_install()
{
	local bindir pkglibdir sharedir dir

	bindir=$("$PG_CONFIG" --bindir) || pc_die "$PG_CONFIG does not work"
	pkglibdir=$("$PG_CONFIG" --pkglibdir)
	sharedir=$("$PG_CONFIG" --sharedir)

	PC_BIN=$PC_DIR$bindir
	mkdir -p "$PC_BIN"
	cp -L "$bindir"/* "$PC_BIN"/
	for dir in "$pkglibdir" "$sharedir"; do
		mkdir -p "$PC_DIR$(dirname "$dir")"
		[ -e "$PC_DIR$dir" ] || cp -as "$dir" "$PC_DIR$dir"
	done
	# links to a gpusort that is installed on this machine
	rm -rf "$PC_DIR$pkglibdir"/gpusort* "$PC_DIR$pkglibdir"/bitcode/gpusort* \
		"$PC_DIR$sharedir"/extension/gpusort*

	make -s install DESTDIR="$PC_DIR" PG_CONFIG="$PG_CONFIG" >"$PC_DIR/install.log" 2>&1 ||
		{ cat "$PC_DIR/install.log"; pc_die "make install failed"; }
}

pc_start()
{
	local name=${1:-data} port=${2:-5432}
	local log=$PC_DIR/server.log

	[ "$name" = data ] || log=$PC_DIR/$name.log
	pc_as "$PC_BIN/initdb" -D "$PC_DIR/$name" -U "$PC_USER" -A trust -E UTF8 \
		--locale=C.UTF-8 -N ${PC_INITDB_OPTIONS:-} >"$PC_DIR/initdb.log" 2>&1 ||
		{ cat "$PC_DIR/initdb.log"; pc_die "initdb failed"; }
	{
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$PC_DIR'"
		echo "port = $port"
		echo "fsync = off"
		cat
	} >>"$PC_DIR/$name/postgresql.conf"
	pc_as "$PC_BIN/pg_ctl" -D "$PC_DIR/$name" -l "$log" -w start \
		>/dev/null || { cat "$log"; pc_die "the server did not start"; }
	PC_RUNNING="$PC_RUNNING $name"
	export PGHOST=$PC_DIR PGPORT=$port PGUSER=$PC_USER PGDATABASE=postgres
	export PATH=$PC_BIN:$PATH
}
