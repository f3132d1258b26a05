#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# usage: source.sh RELEASE HEADERS FOLDER [SOURCE]
#
# Writes FOLDER/nvme/pci.c, the NVMe PCI driver of the distribution's own kernel with pci.patch,
# and with that of its series where there is one, and the two headers that it needs. SOURCE is
# the kernel's source, an archive or a folder; without it the archive of Debian's linux-source
# package, and if that isn't there, or not one of a series that the patch is for, or the kernel
# has no nvme-core, nvme-wrr is left out, which is said.
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
	rm -f "$folder/nvme/pci.c"
	printf '  LEFT    nvme-wrr: %s; next: %s\n' "$1" "$2"
	exit
}

# unpack: the driver's files into $work.
unpack()
{
	if [ -d "$source" ]; then
		cp "$source/drivers/nvme/host/pci.c" "$source/drivers/nvme/host/nvme.h" \
			"$source/drivers/nvme/host/trace.h" "$work"
	else
		tar -xf "$source" -C "$work" --strip-components=4 --wildcards \
			'*/drivers/nvme/host/pci.c' '*/drivers/nvme/host/nvme.h' \
			'*/drivers/nvme/host/trace.h'
	fi
}

release=$1 headers=$2 folder=$3 source=${4:-}
series=$(echo "$release" | cut -d. -f1,2)
case $series in
6.1 | 6.12) ;;
*) leave_out "its patch is for kernels 6.1 and 6.12" "one of these" ;;
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
for change in "${0%/*}/pci.patch" "${0%/*}/pci-$series.patch"; do
	[ -e "$change" ] || continue
	patch -s -F0 "$work/pci.c" "$change" >"$work/said" 2>&1 || {
		cat "$work/said" >&2
		die "the NVMe driver in $source isn't one that $change fits" \
		    "name the source of a Debian kernel 6.1 or 6.12: SOURCE="
	}
done
mkdir -p "$folder/nvme"
for file in pci.c nvme.h trace.h; do
	cmp -s "$work/$file" "$folder/nvme/$file" || cp "$work/$file" "$folder/nvme/$file"
done
