# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# full
# Zeroes take no memory and free the memory of the data before: more can be written than the guest has memory. They read as
# zeroes, in whole pages and in sectors.
. ./lib.sh

mib=128
disk hdd

# put FROM PLACE: write 128 MiB from FROM to the area number PLACE of 128 MiB
put() {
	dd if="$1" of="$DEV" bs=1M count=$mib seek=$(($2 * mib)) oflag=direct status=none || fail "no memory at $2"
}

# holds FROM PLACE: the area has the data of FROM
holds() {
	dd if="$DEV" bs=1M count=$mib skip=$(($2 * mib)) iflag=direct status=none | cmp -n $((mib << 20)) - "$1" ||
		fail "not what was written at $2"
}

tr '\0' x </dev/zero | head -c ${mib}M >/tmp/x
for place in 0 1 2 3 4 5 6 7; do
	put /tmp/x $place
	put /dev/zero $place
done
put /dev/zero 8
put /tmp/x 9
holds /dev/zero 7
holds /dev/zero 8
holds /tmp/x 9

# Sectors 2 and 3 of a page of x.
head -c 4096 /tmp/x >/tmp/page
dd if=/tmp/page of="$DEV" bs=4096 oflag=direct status=none
dd if=/dev/zero of="$DEV" bs=512 seek=2 count=2 oflag=direct status=none
dd if=/dev/zero of=/tmp/page bs=512 seek=2 count=2 conv=notrunc status=none
dd if="$DEV" bs=4096 count=1 iflag=direct status=none | cmp - /tmp/page || fail "sectors of zeroes went to the wrong place"
expect_dmesg_clean
