#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# usage: source.sh RELEASE HEADERS FOLDER [SOURCE]
#
# Writes FOLDER/nvme/pci.c and the two headers that it needs: the NVMe PCI driver of the
# distribution's own kernel with pci.patch, and with those of its major version and of its series
# where there are any. SOURCE is the kernel's source, an archive or a folder; without it the archive
# of Debian's linux-source package. nvme-wrr is left out, which is said, for a kernel without
# nvme-core. Without SOURCE that is so for a kernel of another series too, and if the archive isn't
# there, or is of another version, since what the driver shares with nvme-core may differ, or if a
# patch doesn't fit.
set -eu
export LC_ALL=C

# die WHAT NEXT: says what happened and what to do about it.
die()
{
	printf 'sluice: %s\n  next: %s\n' "$1" "$2" >&2
	exit 1
}

# leave_out WHY NEXT: everything else is built.
leave_out()
{
	rm -f "$folder/nvme/pci.c" "$folder/nvme/nvme-wrr.ko"
	printf '  LEFT    nvme-wrr: %s; next: %s\n' "$1" "$2"
	exit
}

# unfit WHAT NEXT: a source that was named must do.
unfit()
{
	[ -n "$named" ] && die "$1" "$2"
	leave_out "$1" "$2"
}

# unpack: the kernel's Makefile and the driver's files into $work.
unpack()
{
	host=drivers/nvme/host
	if [ -d "$source" ]; then
		tree=$source
	else
		tree=$work/tree
		mkdir "$tree"
		tar -xf "$source" -C "$tree" --strip-components=1 --wildcards \
			--no-wildcards-match-slash '*/Makefile' "*/$host/pci.c" "*/$host/nvme.h" \
			"*/$host/trace.h" || return
	fi
	cp "$tree/Makefile" "$tree/$host/pci.c" "$tree/$host/nvme.h" "$tree/$host/trace.h" "$work"
}

# version PACKAGE: that of the installed one; nothing if there is none, or no dpkg.
version()
{
	dpkg-query -W -f '${Version}' "$1" 2>/dev/null || :
}

release=$1 headers=$2 folder=$3 source=${4:-} named=${4:-}
series=$(echo "$release" | cut -d. -f1,2)
case $series in
6.1 | 6.12 | 7.3) ;;
*) unfit "the NVMe driver's patches are for kernels 6.1, 6.12 and 7.3" "one of these" ;;
esac
grep -qw nvme_init_ctrl "$headers/Module.symvers" ||
	leave_out "$release has no nvme-core" "a kernel that has"
if [ -z "$source" ]; then
	source=/usr/src/linux-source-$series.tar.xz
	[ -e "$source" ] || leave_out "no $source" "apt-get install linux-source-$series"
fi
command -v patch >/dev/null || die "patch isn't installed" "apt-get install patch"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unpack || die "there is no NVMe driver in $source" "name another: SOURCE="
of=$(sed -n 's/^\(VERSION\|PATCHLEVEL\|SUBLEVEL\) = //p' "$work/Makefile" | paste -sd.)
wanted=$(sed -n 's/^#define LINUX_VERSION_\(MAJOR\|PATCHLEVEL\|SUBLEVEL\) //p' \
	"$headers/include/generated/uapi/linux/version.h" | paste -sd.)
[ "$of" = "$wanted" ] || unfit "$source is of Linux $of, and $release is $wanted" \
	"upgrade both and boot that kernel, or name the source of this one: SOURCE="
# A sublevel may have several of Debian's revisions, with patches of their own.
of=$(version "linux-source-$series") wanted=$(version "linux-headers-$release")
[ -n "$named" ] || [ -z "$of" ] || [ -z "$wanted" ] || [ "$of" = "$wanted" ] ||
	leave_out "linux-source-$series is $of, and linux-headers-$release is $wanted" \
		"upgrade both and boot that kernel, or name the source of this one: SOURCE="
for change in "${0%/*}/pci.patch" "${0%/*}/pci-${series%.*}.patch" "${0%/*}/pci-$series.patch"; do
	[ -e "$change" ] || continue
	patch -s -F0 "$work/pci.c" "$change" >"$work/said" 2>&1 || {
		cat "$work/said" >&2
		unfit "the NVMe driver in $source isn't one that $change fits" \
			"name the source of a Debian kernel 6.1, 6.12 or 7.3: SOURCE="
	}
done
mkdir -p "$folder/nvme"
for file in pci.c nvme.h trace.h; do
	cmp -s "$work/$file" "$folder/nvme/$file" || cp "$work/$file" "$folder/nvme/$file"
done
