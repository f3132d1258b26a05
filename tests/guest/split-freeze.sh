# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# debug
# A freeze, an unmount or a remount of a file system, or a suspend of the machine, never waits for a policy that holds calls.
. ./lib.sh

milliseconds() {
	awk '{ print $1 * 1000 }' /proc/uptime
}

# soon COMMAND…: the command succeeds within half a second.
soon() {
	start=$(milliseconds)
	timeout 20 "$@" || fail "$* fails"
	took=$(($(milliseconds) - start))
	[ "$took" -lt 500 ] || fail "$* took $took ms"
}

# all_end: all held commands in the background have succeeded.
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

# A held write and a held change of a name have nothing that a freeze waits for. An fsync and a sync then wait for the thaw, not
# for the policy.
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

# A held sync has the file system's own lock, which an unmount needs.
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

# Users of a file system keep it mounted, held or not; and a detached mount goes with its last user.
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

# The freezer, with which suspend begins; the rest of suspend isn't tested. After the thaw the calls are held again.
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
