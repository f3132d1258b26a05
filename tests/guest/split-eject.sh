# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# debug
# A policy that forgets the calls it holds is ejected after 10 s. The calls go on, its gates stay open, its requests flow, and
# the log and debugfs report it. A policy that answers may hold for as long as it likes.
. ./lib.sh

seconds() {
	awk '{ print int($1) }' /proc/uptime
}

disk ssd
scheduler split-noop
file_system
: >/tmp/mnt/file
hold write
dd if=/dev/zero of=/tmp/mnt/file bs=4k count=1 conv=notrunc status=none &
wait_held 1 write
sleep 25
wait_held 1 write

# From the last answer, which was up to 2.5 s ago, to the first look after 10 s.
echo 1 >"$Q/iosched/forget"
start=$(seconds)
touch /tmp/mnt/other
dd if=/dev/zero of=/tmp/mnt/other bs=4k count=1 conv=notrunc status=none &
wait $! || fail "a call fails when its policy is ejected"
wait || fail "a call fails when its policy is ejected"
took=$(($(seconds) - start))
if [ "$took" -lt 7 ] || [ "$took" -gt 11 ]; then
	fail "the policy was ejected after $took s"
fi
dmesg | grep -q "split: simdisk-d0: policy split-noop left a write of process .* unanswered for 10000 ms and is ejected" ||
	fail "the log doesn't say so"
grep -q "^simdisk-d0 split-noop held=0 let_go=0 dropped=2 state=ejected closed=\$" /sys/kernel/debug/split/devices ||
	fail "debugfs says $(cat /sys/kernel/debug/split/devices)"

# Everything flows, whatever the knobs are set to.
hold write fsync
timeout 5 dd if=/dev/zero of=/tmp/mnt/file bs=4k count=1 conv=fsync status=none || fail "a call is held"

# Chosen again, it works again.
scheduler none
scheduler split-noop
hold write
dd if=/dev/zero of=/tmp/mnt/file bs=4k count=1 conv=notrunc status=none &
wait_held 1 write
hold
wait $! || fail "a call fails"
umount /tmp/mnt
