# root.sh: commands in another Debian system's root.
#
# Sourced by scripts that run as root.
#
#	within ROOT COMMAND...	run a command there, in mount and process namespaces of its own:
#							nothing stays mounted or running when it ends; WITHIN_BIND names a
#							directory of this machine that is seen there as well
#	quiet_root ROOT			in a new root: packages start no servers, and make no cluster that nobody asked for
#	debian_mirror			where this machine's apt has Debian from

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
