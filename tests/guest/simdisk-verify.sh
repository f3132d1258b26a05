# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Written data can be read, from sector 0 to the last, on every profile.
. ./lib.sh

config=/sys/kernel/config/simdisk/d0
# An odd number, so that the last page is not whole.
sectors=131071

verify() {
	fio --name=verify --filename="$DEV" --direct=1 --ioengine=libaio "$@" \
		--verify=crc32c --verify_fatal=1 --output=/out/fio ||
		fail "fio found wrong content: $profile $*"
}

last_sector() {
	tr '\0' x </dev/zero | head -c 512 >/tmp/x
	dd if=/tmp/x of="$DEV" bs=512 seek=$((sectors - 1)) oflag=direct status=none
	dd if="$DEV" bs=512 skip=$((sectors - 1)) iflag=direct status=none >/tmp/last
	cmp /tmp/x /tmp/last || fail "$profile: the last sector has other content"
	if dd if=/tmp/x of="$DEV" bs=512 seek=$sectors oflag=direct status=none 2>/dev/null; then
		fail "$profile: a sector behind the last was written"
	fi
}

for profile in hdd ssd emmc nvme; do
	disk "$profile" sectors=$sectors
	[ "$(blockdev --getsz "$DEV")" = $sectors ] || fail "$profile: capacity $(blockdev --getsz "$DEV")"
	last_sector
	verify --rw=randwrite --bs=4k --iodepth=16 --size=2m
	verify --rw=randwrite --bsrange=512-64k --iodepth=1 --size=8m
	verify --rw=write --bs=1m --iodepth=4 --size=32m
	cmp /tmp/x /tmp/last || fail "$profile: the last sector changed"
	grep -qx "inflight 0" $config/stats || fail "$profile: $(cat $config/stats)"
	echo 0 >$config/power
	rmdir $config
done
rmmod simdisk
expect_dmesg_clean
