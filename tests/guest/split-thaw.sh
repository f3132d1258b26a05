# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop split-token
# debug
# A cgroup freezes within a second though a policy holds its calls. No held call happens while the cgroup is frozen. After the
# thaw the call is held as before, and then happens once.
. ./lib.sh

# frozen 0|1: wait up to a second until the cgroup is frozen or isn't.
frozen() {
	for _ in $(seq 50); do
		! grep -qx "frozen $1" "$G/f/cgroup.events" || return 0
		sleep 0.02
	done
	fail "$what: after a second frozen isn't $1: $(cat /sys/kernel/debug/split/held)"
}

in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$G/f" "$@"
}

# thaws KIND DONE COMMAND…: the command is held, frozen, thawed, held and released; DONE holds then, and not before.
thaws() {
	what="$1" condition=$2
	shift 2
	hold "$what"
	in_group f "$@" &
	caller=$!
	wait_held 1 "$what"
	for _ in 1 2; do
		echo 1 >"$G/f/cgroup.freeze"
		frozen 1
		if eval "$condition"; then
			fail "$* is done though its cgroup is frozen"
		fi
		echo 0 >"$G/f/cgroup.freeze"
		frozen 0
		wait_held 1 "$what"
	done
	# A call that is released while frozen waits for the thaw.
	echo 1 >"$G/f/cgroup.freeze"
	frozen 1
	hold
	sleep 0.2
	if eval "$condition"; then
		fail "$* is done though its cgroup is frozen"
	fi
	echo 0 >"$G/f/cgroup.freeze"
	wait $caller || fail "$* fails after a thaw"
	eval "$condition" || fail "$* isn't done after it was let go"
}

disk ssd
scheduler split-noop
mount -t cgroup2 none "$G"
echo +io >"$G/cgroup.subtree_control"
mkdir "$G/f"
file_system
cd /tmp/mnt || exit
: >file
thaws write "[ -s file ]" dd if=/dev/zero of=file bs=4k count=1 conv=notrunc status=none
[ "$(stat -c %s file)" = 4096 ] || fail "it was written more than once: $(stat -c %s file)"
thaws write "[ -s other ]" xfs_io -f -c "pwrite 0 4096" -c "fsync" other >/dev/null
thaws creat "[ -e new ]" touch new
thaws mkdir "[ -e folder ]" mkdir folder
thaws rename "[ -e newer ]" mv new newer
thaws unlink "[ ! -e newer ]" rm newer
thaws fsync "[ -e /tmp/durable ]" sh -c "xfs_io -c fsync file && : >/tmp/durable"

# A call that can't be restarted goes on; the cgroup doesn't wait for the policy.
what=sync
hold sync
in_group f sync &
caller=$!
wait_held 1 sync
echo 1 >"$G/f/cgroup.freeze"
frozen 1
hold
echo 0 >"$G/f/cgroup.freeze"
wait $caller || fail "sync fails"
cd /
umount /tmp/mnt

# A debt is still there after the thaw, and a held store isn't made.
scheduler split-token
file_system
dd if=/dev/zero of=/tmp/mnt/x bs=1M count=8 conv=fsync status=none
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
echo 4096 >"$G/f/io.sluice.rate"
cat >/tmp/stores.py <<'end'
import mmap, os
fd = os.open("/tmp/mnt/x", os.O_RDWR)
area = mmap.mmap(fd, 8 << 20)
for page in range(2048):
    area[page * 4096] = 1
    with open("/tmp/stored", "w") as file:
        file.write(str(page + 1))
end
in_group f python3 /tmp/stores.py &
what=store
for _ in $(seq 300); do
	! grep -q " store " /sys/kernel/debug/split/held || break
	sleep 0.02
done
grep -q " store " /sys/kernel/debug/split/held || fail "no store is held: $(cat /sys/kernel/debug/split/held)"
stored=$(cat /tmp/stored)
for _ in 1 2 3 4 5 6 7 8 9 10; do
	echo 1 >"$G/f/cgroup.freeze"
	frozen 1
	echo 0 >"$G/f/cgroup.freeze"
	sleep 0.1
done
[ $(($(cat /tmp/stored) - stored)) -le 3 ] || fail "thawed ten times, it has stored $(($(cat /tmp/stored) - stored)) pages"
echo 1 >"$G/f/cgroup.kill"
wait || :
umount /tmp/mnt
scheduler none
rmmod split-noop split-token
rmmod split
expect_dmesg_clean
