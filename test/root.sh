# root.sh: shell functions that run commands in the root directory of another
# Debian system.
#
# Sourced by test/versions and test/packaging/package, which run as root.
#
#	within ROOT COMMAND...	run a command in ROOT, in new mount, IPC and process
#							namespaces: mounts and processes end with the command.
#							WITHIN_BIND names a directory of this machine that the
#							command sees under the same path
#	lock_root ROOT			lock a root, which need not exist, until this shell and its
#							commands end; if another process has it, say so and fail
#	quiet_root ROOT			configure a new root: packages start no server and
#							create no cluster
#	debian_mirror			print the URL from which this machine's apt gets Debian

within()
{
	local root=$1

	shift
	unshare --mount --ipc --pid --fork --kill-child bash -c '
		set -e
		root=$1
		shift
		mount --make-rprivate /
		mount -t tmpfs -o mode=755 none "$root/dev"
		for node in null zero full random urandom; do
			touch "$root/dev/$node"
			mount --bind "/dev/$node" "$root/dev/$node"
		done
		ln -s /proc/self/fd "$root/dev/fd"
		mkdir "$root/dev/shm"
		mount -t tmpfs -o mode=1777 none "$root/dev/shm"
		mount -t proc none "$root/proc"
		mount -t tmpfs -o mode=1777 none "$root/tmp"
		if [ -n "${WITHIN_BIND:-}" ]; then
			mkdir -p "$root$WITHIN_BIND"
			mount --bind "$WITHIN_BIND" "$root$WITHIN_BIND"
		fi
		exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root \
			DEBIAN_FRONTEND=noninteractive "$@"' - "$root" "$@"
}

# The lock is on ROOT.lock, which stays and holds the process ID of its last holder.
lock_root()
{
	local root=$1 lock

	exec {lock}>>"$root.lock"
	if ! flock --nonblock "$lock"; then
		echo "$0: process $(cat "$root.lock") uses the root $root: wait until it ends, or set ROOTS" >&2
		return 1
	fi
	echo $$ >"$root.lock"
}

quiet_root()
{
	local root=$1

	echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
	chmod 755 "$root/usr/sbin/policy-rc.d"
	mkdir -p "$root/etc/postgresql-common"
	echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
}

debian_mirror()
{
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
		'Origin: Debian' 'Label: Debian' 'Component: main' | head -n 1
}
