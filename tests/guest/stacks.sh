# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# stack
# Each stack of the lab keeps what is written to a file system on it, in memory or not. Each mirror of RAID 1 has all of it, and a
# real cipher leaves nothing of it readable below.
. ./lib.sh
. ./stack.sh

# undo: take a stack apart.
undo() {
	umount /tmp/mnt
	losetup -D
	! mountpoint -q /tmp/below || umount /tmp/below
	[ ! -e /sys/block/md0/md ] || echo clear >/sys/block/md0/md/array_state
	dmsetup remove_all
}

# readable: how many lines of the text can be read on the first disk.
readable() {
	dd if=/dev/simdisk-d0 bs=1M count=320 iflag=direct status=none | grep -ac "nobody but us" || true
}

for disk in 3 2 1 0; do
	DISK=d$disk disk ssd
done
yes "nobody but us reads this" | head -c 1M >/tmp/wanted
wanted=$(md5sum </tmp/wanted)

# RAID 1 comes first, on disks that are alike.
for stack in raid1 lvm crypt crypt-lvm thin raid10 loop; do
	DEV=/dev/simdisk-d0
	stack $stack
	[ "$DEV" != /dev/simdisk-d0 ] || fail "$stack has no device of its own"
	file_system
	dd if=/tmp/wanted of=/tmp/mnt/file bs=64k conv=fsync status=none
	umount /tmp/mnt
	echo 3 >/proc/sys/vm/drop_caches
	mount "$DEV" /tmp/mnt
	[ "$(md5sum </tmp/mnt/file)" = "$wanted" ] || fail "$stack has lost what was written"
	[ $stack != raid1 ] || cmp -n $((256 << 20)) /dev/simdisk-d0 /dev/simdisk-d1 || fail "the mirrors differ"
	[ $stack != crypt ] || [ "$(readable)" != 0 ] || fail "a cipher that changes nothing hides the text"
	undo
done

blkdiscard -f /dev/simdisk-d0 2>/dev/null || dd if=/dev/zero of=/dev/simdisk-d0 bs=1M count=320 status=none
DEV=/dev/simdisk-d0
CIPHER=aes-xts-plain64 KEY=$(yes 0123456789abcdef | head -8 | tr -d '\n') stack crypt
file_system
dd if=/tmp/wanted of=/tmp/mnt/file bs=64k conv=fsync status=none
[ "$(readable)" = 0 ] || fail "the text can be read below LUKS"
[ "$(md5sum </tmp/mnt/file)" = "$wanted" ] || fail "LUKS has lost what was written"
undo
