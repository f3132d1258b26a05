# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# each
# FLUSH, FUA, discard and write zeroes reach the drive as commands, with the right effect.
. ./lib.sh

config=/sys/kernel/config/simdisk/d0

# count COMMAND: the number of such commands that the drive has seen.
count() {
	sed -n "s/^$1 //p" $config/stats
}

# became COMMAND BEFORE: the count must have grown.
became() {
	[ "$(count "$1")" -gt "$2" ] || fail "$profile: no $1 arrived"
}

fill() {
	tr '\0' x </dev/zero | head -c 65536 >/tmp/x
	dd if=/tmp/x of="$DEV" bs=64k oflag=direct status=none
}

# content OFFSET BYTES NAME: NAME is zero or x.
content() {
	dd if="$DEV" bs=512 skip=$(($1 / 512)) count=$(($2 / 512)) iflag=direct status=none >/tmp/got
	case $3 in
	zero) head -c "$2" /dev/zero >/tmp/expected ;;
	x) head -c "$2" /tmp/x >/tmp/expected ;;
	esac
	cmp /tmp/got /tmp/expected || fail "$profile: $2 bytes at $1 are not $3"
}

flush() {
	before=$(count flush)
	dd if=/tmp/x of="$DEV" bs=4k count=1 conv=fsync status=none
	became flush "$before"
}

# A durable write: FUA if the drive has it, else a FLUSH after it.
durable_write() {
	fua=$(count fua)
	flush=$(count flush)
	dd if=/tmp/x of="$DEV" bs=4k count=1 oflag=direct,dsync status=none
	if [ "$(cat "$Q/fua")" = 1 ]; then
		became fua "$fua"
	else
		[ "$(count fua)" = 0 ] || fail "$profile: FUA sent to a drive without"
		became flush "$flush"
	fi
}

discard() {
	before=$(count discard)
	fill
	blkdiscard -o 1024 -l 8192 "$DEV"
	became discard "$before"
	content 0 1024 x
	content 1024 8192 zero
	content 9216 8192 x
}

zeroes() {
	before=$(count zeroes)
	fill
	blkdiscard -z -o 512 -l 12288 "$DEV"
	became zeroes "$before"
	content 0 512 x
	content 512 12288 zero
	content 12800 8192 x
}

# The drive has neither command: discard is refused, zeroes are written.
neither() {
	[ "$(cat "$Q/discard_max_bytes")" = 0 ] || fail "$profile offers discard"
	[ "$(cat "$Q/write_zeroes_max_bytes")" = 0 ] || fail "$profile offers write zeroes"
	fill
	blkdiscard -z -o 512 -l 12288 "$DEV"
	content 512 12288 zero
	content 12800 8192 x
}

flags() {
	[ "$(cat "$Q/rotational")" = "$1" ] || fail "$profile: rotational is $(cat "$Q/rotational")"
	[ "$(cat "$Q/write_cache")" = "write back" ] || fail "$profile: write cache is $(cat "$Q/write_cache")"
}

for profile in hdd ssd emmc nvme; do
	disk "$profile" sectors=1048576
	fill
	flush
	durable_write
	case $profile in
	hdd) flags 1 && neither ;;
	ssd) flags 0 && discard ;;
	*) flags 0 && discard && zeroes ;;
	esac
	echo 0 >$config/power
	rmdir $config
done

# A drive with a protected cache, or without a cache, needs no FLUSH: the kernel must not send any.
for setting in protected_cache=1 cache_kib=0; do
	profile=$setting
	disk ssd sectors=1048576 $setting
	[ "$(cat "$Q/write_cache")" = "write through" ] || fail "$setting: write cache is $(cat "$Q/write_cache")"
	dd if=/tmp/x of="$DEV" bs=4k count=1 conv=fsync status=none
	[ "$(count flush)" = 0 ] || fail "$setting: a FLUSH was sent"
	echo 0 >$config/power
	rmdir $config
done
rmmod simdisk
expect_dmesg_clean
