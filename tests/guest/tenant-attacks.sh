# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-token
# A tenant with a rate and without privileges tries to get more than the rate, in each of the ways below. It costs the disk its
# rate, at most a twentieth more, and at most one second of it on top. No call of another tenant, or of a process without a
# rate, takes longer than a second.
. ./lib.sh

RATE=2000000 SECONDS_EACH=4

# attack.py NAME SECONDS: run the attack as user 1000, in its cgroup.
cat >/tmp/attack.py <<'END'
import ctypes, mmap, os, random, resource, signal, sys, threading, time

name, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
block = b"x" * 4096
os.chdir(f"/tmp/mnt/{name}")

def going_on():
    return time.monotonic() < end

def mapped(file, size=64 << 20):
    fd = os.open(file, os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, size)
    return mmap.mmap(fd, size)

def killed_stores():
    """Each process stores once, and is killed when it is held."""
    area, at = mapped("map"), 0
    while going_on():
        children = []
        for at in range(at, at + 64):
            pid = os.fork()
            if not pid:
                area[at * 4096 % len(area)] = 1
                os._exit(0)
            children.append(pid)
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

def signal_frames():
    """Stores are interrupted, and the kernel stores the frames of signals in the same file, each in pages of its own."""
    class Stack(ctypes.Structure):
        _fields_ = [("place", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

    area, libc = mapped("map"), ctypes.CDLL(None)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    for at in range(0, len(area), 1 << 17):
        if going_on():
            libc.sigaltstack(ctypes.byref(Stack(start + at, 0, 1 << 16)), None)
            area[at + (1 << 16)] = 1

def syscall_stores():
    """What is read goes to a mapped file: the kernel stores."""
    area, zero = mapped("map"), os.open("/dev/zero", os.O_RDONLY)
    for at in range(0, len(area), 1 << 18):
        if going_on():
            os.readv(zero, [memoryview(area)[at : at + (1 << 18)]])

def freed_stores():
    """Threads store, while another one changes the memory map all the time."""
    area, libc = mapped("map"), ctypes.CDLL(None)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    def work(first):
        for at in range(first, len(area), 4 * 4096):
            if going_on():
                libc.memset(ctypes.c_void_p(start + at), 1, 1)
    for n in range(4):
        threading.Thread(target=work, args=(n * 4096,), daemon=True).start()
    while going_on():
        mmap.mmap(-1, 4096).close()

def empty_fsyncs():
    """fsync finds nothing to write: the disk flushes its cache for it."""
    fd = os.open("file", os.O_RDWR | os.O_CREAT)
    os.write(fd, block)
    while going_on():
        os.fsync(fd)

def changes(change):
    """Changes by an open file, each made durable."""
    def run():
        fd = os.open("file", os.O_RDWR | os.O_CREAT)
        n = 0
        while going_on():
            n += 1
            change(fd, n)
            os.fsync(fd)
    return run

def many_changes(change, files=800):
    """Changes by open files, more than a few blocks of inodes have: none is made durable."""
    def run():
        fds = [os.open(f"file{n}", os.O_RDWR | os.O_CREAT) for n in range(files)]
        n = 0
        while going_on():
            n += 1
            for fd in fds:
                change(fd, n)
    return run

def dumps():
    """Memory gets to the disk as the core of a process that has crashed."""
    while going_on():
        pid = os.fork()
        if not pid:
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            os.mkdir(str(os.getpid()))
            os.chdir(str(os.getpid()))
            area = mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            for at in range(0, len(area), 4096):
                area[at] = 1
            os.abort()
        os.waitpid(pid, 0)

def direct():
    """Tiny direct reads and writes, by many."""
    page = mmap.mmap(-1, 4096)
    fd = os.open("/tmp/mnt/shared/large", os.O_RDONLY | os.O_DIRECT)
    own = os.open("file", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    os.posix_fallocate(own, 0, 16 << 20)
    def work(n):
        rng = random.Random(n)
        while going_on():
            os.preadv(fd, [page], rng.randrange(16384) * 4096)
            os.pwritev(own, [page], rng.randrange(4096) * 4096)
    for n in range(32):
        threading.Thread(target=work, args=(n,), daemon=True).start()
    time.sleep(max(0, end - time.monotonic()))

def copies():
    """Files are copied within the kernel, and shortened before they are written."""
    source, n = os.open("/tmp/mnt/shared/large", os.O_RDONLY), 0
    while going_on():
        n += 1
        fd = os.open("copy", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.copy_file_range(source, fd, 1 << 20, 0)
        os.sendfile(fd, source, 0, 1 << 20)
        if n % 2:
            os.ftruncate(fd, 0)
        os.close(fd)

attacks = {
    "many_truncates": many_changes(lambda fd, n: os.ftruncate(fd, n), 400),
    "fchowns": changes(lambda fd, n: os.fchown(fd, -1, 1000)),
    "fallocates": changes(lambda fd, n: os.posix_fallocate(fd, 0, n * 4096)),
    "many_fchowns": many_changes(lambda fd, n: os.fchown(fd, -1, 1000)),
    **{f.__name__: f for f in (empty_fsyncs, dumps, direct, copies, freed_stores, killed_stores, signal_frames, syscall_stores)},
}
attacks[name]()
os._exit(0)
END

# other.py CGROUP FILE: small calls; FILE gets the longest duration of each, in ms.
cat >/tmp/other.py <<'END'
import mmap, os, random, sys, time

longest, caller = {}, sys.argv[1]
with open(f"{sys.argv[2]}/cgroup.procs", "w") as procs:
    procs.write(str(os.getpid()))
page = mmap.mmap(-1, 4096)
own = os.open(f"/tmp/mnt/own-{caller}", os.O_RDWR | os.O_CREAT)
os.write(own, b"x" * 4096)
area = mmap.mmap(own, 4096)
large = os.open("/tmp/mnt/shared/large", os.O_RDONLY | os.O_DIRECT)

def timed(what, call):
    start = time.monotonic()
    call()
    took = (time.monotonic() - start) * 1000
    if took > longest.get(what, 0):
        longest[what] = took
        with open(f"/tmp/longest-{caller}.new", "w") as file:
            file.write("".join(f"{what} {int(took)}\n" for what, took in longest.items()))
        os.rename(f"/tmp/longest-{caller}.new", f"/tmp/longest-{caller}")

def make():
    os.close(os.open(f"/tmp/mnt/shared/{caller}", os.O_CREAT | os.O_WRONLY, 0o666))

def store():
    area[0] = 1

while True:
    timed("creat", make)
    timed("unlink", lambda: os.unlink(f"/tmp/mnt/shared/{caller}"))
    timed("write", lambda: os.pwrite(own, b"y" * 4096, 0))
    timed("store", store)
    timed("read", lambda: os.preadv(large, [page], random.randrange(16384) * 4096))
    if caller == "unlimited":
        timed("fsync", lambda: os.fsync(own))
    time.sleep(0.2)
END

buckets=/sys/kernel/debug/block/simdisk-d0/sched/buckets

of() {
	awk -v cgroup="$(stat -c %i "$G/$1")" -v field="$2" '$1 == cgroup { print $field }' $buckets
}

milliseconds() {
	awk '{ print int($1 * 1000) }' /proc/uptime
}

# attack NAME: check the cost of the attack, and the longest calls of the others.
attack() {
	name=$1
	mkdir "$G/$name" "/tmp/mnt/$name"
	echo $RATE >"$G/$name/io.sluice.rate"
	chown 1000:1000 "$G/$name" "$G/$name/cgroup.procs" "$G/$name/cgroup.subtree_control" "/tmp/mnt/$name"
	sync
	rm -f /tmp/longest-*
	python3 /tmp/other.py tenant "$G/other" &
	others=$!
	python3 /tmp/other.py unlimited "$G" &
	others="$others $!"
	sleep 0.5
	rm -f /tmp/longest-*
	start=$(milliseconds) flushes=$(awk '{ print $16 }' /sys/block/simdisk-d0/stat)
	# shellcheck disable=SC2016
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$G/$name" setpriv --reuid 1000 --regid 1000 --clear-groups \
		timeout -s KILL $((SECONDS_EACH + 4)) python3 /tmp/attack.py "$name" $SECONDS_EACH 2>/tmp/said || true
	while [ "$(sed -n 's/^populated //p' "$G/$name/cgroup.events")" = 1 ]; do
		echo 1 >"$G/$name/cgroup.kill"
		sleep 0.05
	done
	took=$(($(milliseconds) - start))
	flushes=$(($(awk '{ print $16 }' /sys/block/simdisk-d0/stat) - flushes))
	# shellcheck disable=SC2086
	kill $others
	# shellcheck disable=SC2086
	wait $others || :
	sync
	sleep 0.5
	cost=$(of "$name" 4) most=$((RATE * took * 21 / 20000 + RATE))
	slowest=$(sort -n -k 2 /tmp/longest-* | tail -1)
	echo "$name: ${cost:-0} in $took ms, at most $most; flushes $flushes; longest ${slowest:-?}; $(tail -1 /tmp/said)"
	[ "${cost:-0}" -le $most ] || echo "$name costs too much" >>/tmp/failed
	[ "$(echo "${slowest:-x 0}" | cut -d' ' -f2)" -le 1000 ] || echo "$name delays others" >>/tmp/failed
	rm -rf "/tmp/mnt/$name"
	sync
}

disk ssd
scheduler split-token
datasheet ssd
weights
file_system -o no_prefetch_block_bitmaps,noatime
mkdir "$G/other" /tmp/mnt/shared
echo $RATE >"$G/other/io.sluice.rate"
chmod 1777 /tmp/mnt/shared
dd if=/dev/zero of=/tmp/mnt/shared/large bs=1M count=64 conv=fsync 2>/dev/null
echo core >/proc/sys/kernel/core_pattern
for attack in empty_fsyncs fchowns fallocates many_fchowns many_truncates dumps direct copies freed_stores killed_stores \
	signal_frames syscall_stores; do
	attack "$attack"
done
umount /tmp/mnt
scheduler none
rmmod split-token split
[ ! -e /tmp/failed ] || fail "$(cat /tmp/failed)"
expect_dmesg_clean
