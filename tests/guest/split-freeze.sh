# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# debug
# Nobody who freezes, unmounts or remounts a file system, or suspends the machine, waits for a policy that holds calls.
. ./lib.sh

milliseconds() {
	awk '{ print $1 * 1000 }' /proc/uptime
}

# soon COMMAND…: it ends well within half a second.
soon() {
	start=$(milliseconds)
	timeout 20 "$@" || fail "$* fails"
	took=$(($(milliseconds) - start))
	[ "$took" -lt 500 ] || fail "$* took $took ms"
}

# all_end: what was held in the background has ended well.
all_end() {
	for caller in $callers; do
		wait "$caller" || fail "a call that was held fails"
	done
	callers=
}

disk ssd
scheduler split-noop
file_system
callers=

# A write and a change of a name that are held have nothing that a freeze waits for. An fsync and a sync wait for the thaw
# then, and not for the policy.
: >/tmp/mnt/file
hold write fsync creat sync
xfs_io -c "pwrite 0 4096" /tmp/mnt/file >/tmp/log &
callers="$callers $!"
xfs_io -c fsync /tmp/mnt/file &
callers="$callers $!"
sync -f /tmp/mnt &
callers="$callers $!"
touch /tmp/mnt/new &
callers="$callers $!"
wait_held 4
soon fsfreeze --freeze /tmp/mnt
wait_held 2
wait_held 0 fsync
wait_held 0 sync
[ ! -e /tmp/mnt/new ] || fail "a name was made in a frozen file system"
fsfreeze --unfreeze /tmp/mnt
hold
all_end
[ -e /tmp/mnt/new ] || fail "what was held is lost"

# A sync that is held has the file system's own lock, which who unmounts it needs.
hold sync
sync -f /tmp/mnt &
callers=$!
wait_held 1 sync
soon mount -o remount,noatime /tmp/mnt
wait_held 0
all_end
sync &
callers=$!
wait_held 1 sync
soon umount /tmp/mnt
wait_held 0
all_end

# What uses a file system keeps it mounted, held or not; and a mount that nobody sees any more goes with its last user.
mount "$DEV" /tmp/mnt
hold write
dd if=/dev/zero of=/tmp/mnt/file bs=4k count=2 conv=notrunc status=none &
callers=$!
wait_held 1 write
if umount /tmp/mnt 2>/dev/null; then
	fail "a file system in use was unmounted"
fi
if mount -o remount,ro /tmp/mnt 2>/dev/null; then
	fail "a file system in use became read-only"
fi
umount --lazy /tmp/mnt
wait_held 1 write
hold
all_end
for _ in $(seq 100); do
	! grep -qs ext4 "/proc/fs/ext4/simdisk-d0/options" || { sleep 0.02; continue; }
	break
done
[ ! -e /proc/fs/ext4/simdisk-d0 ] || fail "the file system outlived its last user"

# The freezer, which suspend begins with; the rest of it isn't tried. After the thaw the calls are held again.
mount "$DEV" /tmp/mnt
hold write fsync
xfs_io -c "pwrite 0 4096" /tmp/mnt/file >/tmp/log &
callers=$!
xfs_io -c fsync /tmp/mnt/file &
callers="$callers $!"
wait_held 2
echo 0 >/sys/module/suspend/parameters/pm_test_delay
echo freezer >/sys/power/pm_test
echo freeze >/sys/power/state || fail "the machine isn't suspended"
wait_held 2
hold
all_end
dmesg | grep -q "Freezing user space processes completed (elapsed 0\\.[0-4]" || fail "the freezer waited"
umount /tmp/mnt
