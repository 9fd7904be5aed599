# private-cluster.sh: a throw-away PostgreSQL installation with a cluster in it.
#
# Sourced by test/demo, test/run-tests and bench/queries.  Everything lives in
# one temporary directory and goes away with it: no installed file, no running
# server, no setting of the machine is touched.
#
# The installation is private because an extension has to lie in its server's
# directories.  PostgreSQL finds its own directories relative to the place of
# its binary, so PC_DIR with the paths of pg_config below it is a complete
# installation: binaries copied (the server resolves links to itself), the rest
# linked, our files installed over it with DESTDIR.
#
#	pc_needs			what the tests need is there, or installed (test/needs)
#	pc_begin NAME		make PC_DIR, clean it up on exit
#	pc_install			the installation, with the extension; sets PC_BIN
#	pc_own PATH...		hand files to the user who runs the server
#	pc_as COMMAND...	run a command as that user
#	pc_start [NAME PORT] < CONF	make and start a cluster with these settings; sets PGHOST and PGPORT
#	pc_stage PATH...	copies of this tree's files for that user, in PC_DIR/src
#	pc_perl [NAME=VALUE...] COMMAND...	run a command as that user with what PostgreSQL's Perl modules and t/lib want
#	pc_keep				keep PC_DIR on exit (to look into a failure)
#
# PostgreSQL refuses to run as root: as root, the server's user is postgres if
# the machine has one, else nobody.  An ordinary user runs it under its own name.

# PG_MAJOR picks one of several that Debian's packages have installed
PG_CONFIG=${PG_CONFIG:-${PG_MAJOR:+/usr/lib/postgresql/$PG_MAJOR/bin/}pg_config}
# compiling the GPU library takes minutes; one that is built is installed
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
		# an ordinary directory: the server's user may not see the current one
		(cd "$PC_DIR" && HOME=$PC_DIR runuser -u "$PC_USER" -- "$@")
	fi
}

pc_own()
{
	[ "$(id -u)" != 0 ] || chown -R "$PC_USER" "$@"
}

# The checkout may lie in a directory closed to that user.
pc_stage()
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

	# of several names command -v is content with one
	pgxs=$("$PG_CONFIG" --pgxs 2>/dev/null) && [ -f "$pgxs" ] &&
		command -v cc >/dev/null && command -v g++ >/dev/null &&
		perl -MIPC::Run -MTest::More -e 1 2>/dev/null
}

pc_needs()
{
	pc_has_needs || test/needs test || pc_die "what the tests need is missing"
	pc_has_needs ||
		pc_die "no server headers behind $PG_CONFIG, no compiler, or not the Perl modules IPC::Run and Test::More"
}

pc_begin()
{
	PC_USER=$(id -un)
	if [ "$(id -u)" = 0 ]; then
		PC_USER=nobody
		! id postgres >/dev/null 2>&1 || PC_USER=postgres
	fi
	# a socket's path has 107 bytes, so TMPDIR must be short
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
	# an installed gpusort is not the one of this tree
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
		--locale=C.UTF-8 -N >"$PC_DIR/initdb.log" 2>&1 ||
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
