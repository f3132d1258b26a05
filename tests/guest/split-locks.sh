# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# debug
# A held call keeps no lock that other processes need: the position of an open file, a pipe, an overlay's directory or file. A
# call that can't be restarted, and has such a lock, is held for a second in all. A held call happens once.
. ./lib.sh

milliseconds() {
	awk '{ print int($1 * 1000) }' /proc/uptime
}

# A debug kernel takes several times as long for everything.
case $(uname -r) in
*-debug-*) slower=4 ;;
*) slower=1 ;;
esac

# within MILLISECONDS WHAT COMMAND…: the command ends within that time.
within() {
	limit=$(($1 * slower)) what=$2
	shift 2
	start=$(milliseconds)
	timeout 20 "$@" || fail "$what fails, or has no end"
	took=$(($(milliseconds) - start))
	[ $took -lt $limit ] || fail "$what takes $took ms: $(cat /sys/kernel/debug/split/held)"
}

# shared.py position|pipe: a process writes to /tmp/mnt/shared and is held; another process uses the lock.
cat >/tmp/shared.py <<'end'
import fcntl, os, sys, time
what, out = sys.argv[1], os.open("/tmp/mnt/shared", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
source, sink = os.pipe()
os.write(sink, b"x" * 100)
child = os.fork()
if not child:
    if what == "position":
        os.write(out, b"x" * 100)
    else:
        assert os.splice(source, out, 100) == 100
    os._exit(0)
held = "/sys/kernel/debug/split/held"
while " write " not in open(held).read():
    time.sleep(0.01)
start = time.monotonic()
if what == "position":
    os.lseek(out, 0, os.SEEK_CUR)
else:
    os.write(sink, b"y")
took = time.monotonic() - start
open("/tmp/took", "w").write(f"{int(took * 1000)}\n")
os._exit(os.waitpid(child, 0)[1])
end

disk ssd
scheduler split-noop
file_system
for what in position pipe; do
	hold write
	rm -f /tmp/took
	python3 /tmp/shared.py $what &
	sharing=$!
	wait_held 1 write
	for _ in $(seq 150); do
		[ ! -s /tmp/took ] || break
		sleep 0.02
	done
	[ -s /tmp/took ] || fail "a process waits for the $what of a write that is held"
	[ ! -s /tmp/mnt/shared ] || fail "a held write has written"
	hold
	wait $sharing || fail "a write fails that was held with a $what"
	[ "$(stat -c %s /tmp/mnt/shared)" = 100 ] || fail "what was held wrote $(stat -c %s /tmp/mnt/shared) bytes, not 100"
done

# An overlay; its directory is locked while names are changed, its files while they are written.
mkdir /tmp/lower /tmp/mnt/upper /tmp/mnt/work /tmp/over
dd if=/dev/zero of=/tmp/lower/large bs=1M count=5 status=none
for name in changed removed; do
	echo old >/tmp/lower/$name
done
load overlay
mount -t overlay -o lowerdir=/tmp/lower,upperdir=/tmp/mnt/upper,workdir=/tmp/mnt/work none /tmp/over
cd /tmp/over || exit
echo one >file
callers=
hold creat mkdir unlink rename change
for change in "mkdir made" "touch new" "rm removed" "mv file moved" "chmod 700 changed" "ln -s x soft"; do
	# shellcheck disable=SC2086  # words on purpose
	$change &
	callers="$callers $!"
done
wait_held 6
for n in 1 2 3; do
	within 1000 "looking for a name" sh -c "[ ! -e none$n ]"
done
within 1000 "reading a directory" ls >/dev/null
for gone in made new moved soft; do
	[ ! -e $gone ] || fail "$gone is there though it is held"
done
hold
for caller in $callers; do
	wait "$caller" || fail "a change of an overlay fails that was held: $(ls -l)"
done
for there in made new moved; do
	[ -e $there ] || fail "no $there: $(ls -l)"
done
[ ! -e removed ] || fail "what was removed is there"
[ -x changed ] || fail "what was changed isn't"
[ "$(cat moved)" = one ] || fail "moved has $(cat moved)"

hold write
sh -c 'echo two >>moved' &
caller=$!
wait_held 1 write
within 1000 "changing what is being written" chmod 600 moved
hold
wait $caller || fail "a write to an overlay fails that was held"
[ "$(tr '\n' ' ' <moved)" = "one two " ] || fail "moved has $(cat moved)"

# An overlay's own copies, and its writes for io_uring, can't be restarted: five parts, a second for all of them.
hold write
sh -c 'exec 3>>large; exec sleep 600' &
caller=$!
wait_held 1 write
within 1900 "opening what is copied up" sh -c ': >>large'
kill $caller
wait $caller || :
hold write
fio --name=uring --filename=/tmp/over/moved --rw=write --bs=4k --size=64k --ioengine=io_uring --direct=0 --overwrite=1 \
	--output=/dev/null &
caller=$!
wait_held 1 write
within 1900 "changing what io_uring writes" chmod 644 moved
hold
wait $caller || fail "io_uring fails on an overlay"
cd /
umount /tmp/over

# A sync has the file systems' own locks: an overlay's as well.
hold sync
sh -c 'sync; : >/tmp/synced' &
caller=$!
wait_held 1 sync
for _ in $(seq $((slower * 75))); do
	[ ! -e /tmp/synced ] || break
	sleep 0.02
done
[ -e /tmp/synced ] || fail "a sync is held for longer than a second"
wait $caller || fail "a sync fails"
hold
umount /tmp/mnt
fsck.ext4 -nf "$DEV" >/out/fsck 2>&1 || fail "the file system is broken: $(cat /out/fsck)"
scheduler none
rmmod split-noop
rmmod split
expect_dmesg_clean
