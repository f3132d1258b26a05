# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-deadline
# full
# debug
# A neighbour's writeback makes no small fsync late: split-deadline paces the writeback, and holds no process. With
# own_writeback 0 the kernel decides, and the neighbour is held in its writes. The knob changes under load.
. ./lib.sh

# in_group NAME COMMAND…
in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$G/$1" "$@"
}

# Appends for eight seconds; prints the 95th percentile of its fsyncs in ms.
cat >/tmp/append.py <<'END'
import os, time

fd = os.open("/tmp/mnt/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
took, begin = [], time.monotonic()
while time.monotonic() - begin < 8:
    os.write(fd, b"x" * 4096)
    start = time.monotonic()
    os.fsync(fd)
    took.append((time.monotonic() - start) * 1000)
took.sort()
print(round(took[int(len(took) * 0.95)]))
END

# Writes to random places, without an fsync, until it is stopped; prints the number of blocks.
cat >/tmp/scatter.py <<'END'
import os, random, time

random.seed(1)
fd = os.open("/tmp/mnt/f0", os.O_WRONLY)
pages, blocks = os.fstat(fd).st_size // 4096, 0
while not os.path.exists("/tmp/enough"):
    for _ in range(64):
        os.pwrite(fd, b"y" * 4096, random.randrange(pages) * 4096)
    blocks += 64
    time.sleep(0.1)
print(blocks)
END

# held: the neighbour's write is held.
held() {
	grep -q " write .*reason=dirty" /sys/kernel/debug/split/held
}

# beside HELD: A appends beside B, whose writes are held at times or never. Sets blocks.
beside() {
	rm -f /tmp/enough
	in_group b python3 /tmp/scatter.py >/tmp/blocks &
	b=$!
	in_group a python3 /tmp/append.py >/tmp/p95 &
	a=$! times=0
	while kill -0 $a 2>/dev/null; do
		! held || times=$((times + 1))
		sleep 0.1
	done
	touch /tmp/enough
	wait $a || fail "A failed"
	wait $b || fail "B failed"
	p95=$(cat /tmp/p95) blocks=$(cat /tmp/blocks)
	echo "own_writeback $(cat "$knob"): A takes $p95 ms, B writes $blocks blocks, held $times times"
	[ "$p95" -le 120 ] || fail "A takes $p95 ms"
	case $1 in
	held) [ $times -gt 9 ] || fail "B isn't held: $times times" ;;
	*) [ $times = 0 ] || fail "B is held $times times" ;;
	esac
}

disk hdd
scheduler split-deadline
weights
mkdir "$G/a" "$G/b"
echo fsync=100000 >"$G/a/io.sluice.deadline"
echo fsync=6000000 >"$G/b/io.sluice.deadline"
large_files 1 256m
filefrag /tmp/mnt/f0 >/dev/null
echo 100 >/proc/sys/vm/dirty_expire_centisecs
echo 50 >/proc/sys/vm/dirty_writeback_centisecs
knob=$Q/iosched/own_writeback
[ "$(cat "$knob")" = 1 ] || fail "own_writeback is $(cat "$knob")"
beside free
buffered=$blocks
sync
echo 0 >"$knob"
beside held
[ "$blocks" -ge 256 ] || fail "B writes $blocks blocks only: what has been written counts as dirty"
[ "$buffered" -gt $((blocks * 2)) ] || fail "the write buffer holds $buffered blocks, $blocks without it"

# Closed files are written back too, long before the kernel would do so. A process with next to no dirty data isn't held for
# others.
echo 3000 >/proc/sys/vm/dirty_expire_centisecs
mkdir "$G/c"
cat >/tmp/little.py <<'END'
import os, time

fd = os.open("/tmp/mnt/little", os.O_CREAT | os.O_WRONLY)
longest = 0
for _ in range(25):
    start = time.monotonic()
    os.pwrite(fd, b"x" * 4096, 0)
    longest = max(longest, time.monotonic() - start)
    time.sleep(0.2)
print(round(longest * 1000))
END
in_group a python3 /tmp/append.py >/tmp/p95 &
a=$!
sleep 1
in_group c python3 /tmp/little.py >/tmp/longest &
c=$! made=0
while kill -0 $a 2>/dev/null; do
	in_group b dd if=/dev/zero of=/tmp/mnt/made$made bs=64k count=4 status=none
	made=$((made + 1))
done
wait $a || fail "A failed"
wait $c || fail "C failed"
echo "A takes $(cat /tmp/p95) ms, C $(cat /tmp/longest) ms, B makes $made files"
[ "$(cat /tmp/p95)" -le 120 ] || fail "A takes $(cat /tmp/p95) ms beside files that are closed"
[ "$(cat /tmp/longest)" -le 100 ] || fail "C, with next to nothing dirty, waits $(cat /tmp/longest) ms"
[ $made -ge 40 ] || fail "B, whose files are closed, makes $made in seven seconds"
rm -f /tmp/mnt/made* /tmp/mnt/little

# No process has less time than B: B isn't held, however much is dirty.
sleep 11
in_group b dd if=/dev/zero of=/tmp/mnt/f0 bs=1M count=64 conv=notrunc status=none &
b=$!
while kill -0 $b 2>/dev/null; do
	! held || fail "B is held for no other"
	sleep 0.02
done
wait $b || fail "dd failed"
sync

# Held writes go on when the knob or the scheduler changes, and when they are killed.
for what in 1 none kill; do
	scheduler split-deadline
	echo 0 >"$knob"
	rm -f /tmp/enough
	in_group a python3 /tmp/append.py >/tmp/p95 &
	a=$!
	sleep 1
	in_group b python3 /tmp/scatter.py >/tmp/blocks &
	b=$!
	for tries in $(seq 500); do
		! held || break
		sleep 0.01
	done
	[ "$tries" -lt 500 ] || fail "B isn't held: $(cat /sys/kernel/debug/block/simdisk-d0/sched/forecast)"
	case $what in
	1) echo 1 >"$knob" ;;
	none) scheduler none ;;
	kill) pkill -9 -f scatter.py ;;
	esac
	sleep 0.1
	! held || fail "B is still held after $what"
	touch /tmp/enough
	[ $what = kill ] || wait $b || fail "B failed after $what"
	wait $a || fail "A failed"
done
umount /tmp/mnt
scheduler none
rmmod split-deadline
