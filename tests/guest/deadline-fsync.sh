# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-deadline
# A small fsync keeps its deadline beside large ones that keep theirs. The large ones are of another process, of several files,
# in a shared commit, beside checkpoints, and where a commit waits for data. A read keeps its deadline too. mq-deadline shows
# that this isn't trivial.
. ./lib.sh

# The loads: NAME SECONDS, reported in /tmp/NAME as "p95 longest number", in ms.
cat >/tmp/load.py <<'END'
import os, random, sys, time

name, seconds = sys.argv[1], float(sys.argv[2])
random.seed(1)
block, took, begin = b"x" * 4096, [], time.monotonic()

def timed(fd):
    start = time.monotonic()
    os.fsync(fd)
    took.append((time.monotonic() - start) * 1000)

def scatter(fd, blocks):
    pages = os.fstat(fd).st_size // 4096
    for _ in range(blocks):
        os.pwrite(fd, block, random.randrange(pages) * 4096)

def going_on():
    return time.monotonic() - begin < seconds

if name == "append":
    fd = os.open("/tmp/mnt/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    while going_on():
        os.write(fd, block)
        timed(fd)
elif name == "cold":
    # Maps of free blocks are read from the disk, with a handle of the journal.
    while going_on():
        with open("/proc/sys/vm/drop_caches", "w") as drop:
            drop.write("3")
        start = time.monotonic()
        os.mkdir(f"/tmp/mnt/d{len(took)}")
        took.append((time.monotonic() - start) * 1000)
        time.sleep(0.1)
elif name == "reads":
    fd = os.open("/tmp/mnt/f2", os.O_RDONLY | os.O_DIRECT)
    import mmap
    page = mmap.mmap(-1, 4096)
    while going_on():
        start = time.monotonic()
        os.preadv(fd, [page], random.randrange(os.fstat(fd).st_size // 4096) * 4096)
        took.append((time.monotonic() - start) * 1000)
        time.sleep(0.005)
elif name == "burst":
    fd = os.open("/tmp/mnt/f0", os.O_WRONLY)
    while going_on():
        scatter(fd, 1024)
        timed(fd)
        time.sleep(0.5)
elif name == "files":
    fds = [os.open(f"/tmp/mnt/f{n}", os.O_WRONLY) for n in range(2)]
    while going_on():
        for fd in fds:
            scatter(fd, 512)
        for fd in fds:
            timed(fd)
elif name == "names":
    number = 0
    while going_on():
        for _ in range(50):
            number += 1
            # The file system has room for 6000 names.
            fd = os.open(f"/tmp/mnt/{number % 6000}", os.O_CREAT | os.O_WRONLY)
            os.write(fd, block * 4)
            os.close(fd) if _ < 49 else timed(fd)
elif name == "grow":
    fd = os.open("/tmp/mnt/grows", os.O_CREAT | os.O_WRONLY)
    while going_on():
        os.ftruncate(fd, 0)
        os.ftruncate(fd, 1 << 28)
        scatter(fd, 512)
        timed(fd)
took.sort()
with open(f"/tmp/{name}", "w") as out:
    print(round(took[int(len(took) * 0.95)]), round(took[-1]), len(took), file=out)
END

# beside NAME OF DEADLINE_MS: A appends, or reads, with 100 ms; B runs the load NAME with its own deadline.
beside() {
	rm -f /tmp/"$1" /tmp/"$2"
	for job in "a $1" "b $2"; do
		# shellcheck disable=SC2086,SC2016
		sh -c 'echo $$ >"$0/cgroup.procs" && exec python3 /tmp/load.py "$@"' "$G"/${job% *} ${job#* } $seconds &
	done
	wait
	if [ ! -s "/tmp/$1" ] || [ ! -s "/tmp/$2" ]; then
		fail "$1 beside $2: a process failed"
	fi
	echo "$1 beside $2: $(cat "/tmp/$1"), $(cat "/tmp/$2")"
	cat /sys/kernel/debug/block/simdisk-d0/sched/forecast 2>/dev/null || :
}

# in_time NAME OF DEADLINE_MS: of some hundred operations of A the 95th percentile is within 1.2 times its deadline, $small ms,
# and none takes three times as long. B is within its own deadline.
in_time() {
	beside "$1" "$2"
	read -r p95 longest number <"/tmp/$1"
	[ "$number" -ge 50 ] || fail "$1 beside $2: $number only"
	[ "$p95" -le $((small * 12 / 10)) ] || fail "$1 beside $2 takes $p95 ms"
	[ "$longest" -le $((small * 3)) ] || fail "$1 beside $2 takes $longest ms once"
	read -r _ longest number <"/tmp/$2"
	[ "$number" -ge 1 ] || fail "$2 is never done"
	[ "$longest" -le "$3" ] || fail "$2 takes $longest ms"
}

# each_in_time LOAD…: A keeps its deadline beside each load, with its fsyncs and with its reads. Beside the first load,
# mq-deadline takes twice as long.
each_in_time() {
	# A small journal fills up soon.
	large_files 3 256m
	filefrag /tmp/mnt/f0 /tmp/mnt/f1 /tmp/mnt/f2 >/dev/null
	echo "fsync=${small}000 read=${small}000" >"$G/a/io.sluice.deadline"
	echo fsync=6000000 >"$G/b/io.sluice.deadline"
	scheduler mq-deadline
	beside append "$1"
	read -r theirs _ </tmp/append
	scheduler split-deadline
	in_time append "$1" 6000
	[ "$theirs" -ge $(($(cut -d' ' -f1 /tmp/append) * 2)) ] || fail "mq-deadline takes $theirs ms: this is no test"
	in_time reads "$1" 6000
	shift
	for load; do
		in_time append "$load" 6000
	done
}

load split-deadline
weights
mkdir "$G/a" "$G/b"

# Flash takes 18 ms for a single fsync, 15 of them for the two flushes of a commit.
disk ssd
small=25 seconds=4
each_in_time burst files grow
umount /tmp/mnt
scheduler none
rmdir "$_config"

disk hdd
small=100 seconds=8
each_in_time burst files names grow
# An fsync with an impossible deadline is late, and does not delay one with a shorter deadline.
echo fsync=200000 >"$G/b/io.sluice.deadline"
in_time append burst 60000

# A commit waits for processes with a handle. These read maps of free blocks behind other I/O, and their reads have no deadline.
# A mount reads most maps once, hence a new file system.
umount /tmp/mnt
large_files 3 256m
echo fsync=2000000 >"$G/b/io.sluice.deadline"
for event in block/block_rq_insert sluice/deadline_read; do
	echo 1 >/sys/kernel/tracing/events/$event/enable
done
# shellcheck disable=SC2016
sh -c 'echo $$ >"$0/cgroup.procs" && exec python3 /tmp/load.py cold 8' "$G/b" &
in_time append burst 6000
dumpe2fs "$DEV" 2>/dev/null | sed -n 's/.*Block bitmap at \([0-9]*\).*/\1/p' >/tmp/maps
awk 'FNR == NR { is_map[$1 * 8] = 1; next }
{
	for (at = 1; at <= NF; at++)
		if ($at ~ /^(block_rq_insert|deadline_read):$/)
			break
	if ($at ~ /^block/) {
		map[$(at + 5)] = $(at + 2) ~ /^R/ && $NF == "[python3]" && $(at + 5) in is_map
		maps += map[$(at + 5)]
	} else if (at <= NF) {
		late += map[substr($(at + 2), 8)]
	}
} END { print maps + 0 " maps, " late + 0 " with a deadline"; exit !(maps >= 5 && !late) }' /tmp/maps /sys/kernel/tracing/trace \
	>/tmp/verdict || fail "reads with a handle: $(cat /tmp/verdict)"
cat /tmp/verdict /tmp/cold
echo 0 >/sys/kernel/tracing/events/enable
echo fsync=6000000 >"$G/b/io.sluice.deadline"
umount /tmp/mnt

# A commit waits for the data of each block that was allocated.
large_files 3 256m -o dioread_lock
in_time append grow 6000
umount /tmp/mnt

# A journal of 4 MiB needs a checkpoint every few commits.
mkfs.ext4 -q -J size=4 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 8g
mount "$DEV" /tmp/mnt
in_time append names 6000
umount /tmp/mnt
scheduler none
