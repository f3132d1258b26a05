# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# dmesg: I/O error|timeout error
# A command that fails, one that hangs, one that is only slow, and no memory left.
. ./lib.sh

config=/sys/kernel/config/simdisk/d0

count() {
	sed -n "s/^$1 //p" $config/stats
}

# read_sectors COUNT: one read of 512 bytes after the other; prints how many failed.
read_sectors() {
	bad=0
	for at in $(seq "$1"); do
		dd if="$DEV" of=/dev/null bs=512 count=1 skip="$at" iflag=direct status=none 2>/dev/null ||
			bad=$((bad + 1))
	done
	echo $bad
}

disk ssd sectors=1048576

echo 3 >$config/fail_every
bad=$(read_sectors 9)
echo 0 >$config/fail_every
[ "$bad" = 3 ] || fail "fail_every 3: $bad of 9 reads failed"
[ "$(count failed)" = 3 ] || fail "stats count $(count failed) failures"
[ "$(read_sectors 9)" = 0 ] || fail "reads fail after fail_every 0"

# A write that fails leaves the old content.
echo 1 >$config/fail_every
if dd if=/proc/version of="$DEV" bs=512 count=1 conv=sync oflag=direct status=none 2>/dev/null; then
	fail "a write that fails was successful"
fi
echo 0 >$config/fail_every
dd if="$DEV" bs=512 count=1 iflag=direct status=none | cmp - /dev/zero -n 512 ||
	fail "a write that failed changed the content"

# Hanging commands are aborted after io_timeout, in ms; the others go on.
echo 1000 >"$Q/io_timeout"
echo 4 >$config/hang_every
bad=$(read_sectors 4)
echo 0 >$config/hang_every
[ "$bad" = 1 ] || fail "hang_every 4: $bad of 4 reads failed"
[ "$(count hung)" = 1 ] || fail "stats count $(count hung) hung"
[ "$(count inflight)" = 0 ] || fail "$(count inflight) commands are still under way"
dmesg | grep -q "simdisk: d0: command at sector .* timed out" || fail "no word about the timeout"
[ "$(read_sectors 4)" = 0 ] || fail "reads fail after hang_every 0"
echo 0 >$config/power

# A slow command is waited for: 4 s with a timeout of 1 s.
echo 1000 >$config/slowdown
echo 4000000 >$config/read_latency_ns
echo 1 >$config/power
echo 1000 >"$Q/io_timeout"
[ "$(read_sectors 1)" = 0 ] || fail "a slow read was aborted"
echo 0 >$config/power
rmdir $config
rmmod simdisk
expect_dmesg_clean 'I/O error|timeout error'
