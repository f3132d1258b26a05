# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-deadline
# debug
# /dev/sluice gives the reads of an open file a deadline of their own: in the page cache and past it, one by one and many at
# once, while /dev/sluice is open. A read that expires is served in time, whatever else its process reads.
. ./lib.sh

trace=/sys/kernel/tracing

cat >/tmp/ask.py <<'end'
import ctypes, fcntl, mmap, os, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
PAGE = 4096
at = 0


def opened():
    return os.open("/dev/sluice", os.O_RDWR)


def deadline(keeper, fd, read_us, fsync_us=0):
    """The error that it gives, 0 if it is taken."""
    try:
        fcntl.ioctl(keeper, 0x400CDB01, struct.pack("iII", fd, read_us, fsync_us))
    except OSError as error:
        return error.errno
    return 0


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: error {got}, not {wanted}")


def place():
    """A page that was not read before."""
    global at
    at += 256 * PAGE
    return at


def read(fd):
    if len(os.pread(fd, PAGE, place())) != PAGE:
        sys.exit("short read")


def read_direct(fd):
    if os.preadv(fd, [mmap.mmap(-1, PAGE)], place()) != PAGE:
        sys.exit("short direct read")


def read_at_once(*fds):
    """By one io_submit."""
    context = ctypes.c_ulong()
    if libc.syscall(206, len(fds), ctypes.byref(context)):
        sys.exit("io_setup")
    buffers = [mmap.mmap(-1, PAGE) for _ in fds]
    places = [ctypes.addressof(ctypes.c_char.from_buffer(buffer)) for buffer in buffers]
    # struct iocb: data, key, flags, opcode, priority, descriptor, buffer, bytes, offset.
    calls = [
        ctypes.create_string_buffer(struct.pack("QIIHhIQQq24x", 0, 0, 0, 0, 0, fd, address, PAGE, place()))
        for fd, address in zip(fds, places)
    ]
    pointers = (ctypes.c_void_p * len(fds))(*[ctypes.addressof(call) for call in calls])
    events = ctypes.create_string_buffer(32 * len(fds))
    if libc.syscall(209, context, len(fds), pointers) != len(fds):
        sys.exit("io_submit")
    if libc.syscall(208, context, len(fds), len(fds), events, None) != len(fds):
        sys.exit("io_getevents")
    if any(result != PAGE for _, _, result, _ in struct.iter_unpack("QQqq", events.raw)):
        sys.exit("io_submit: short read")


LOG = os.open("/tmp/mnt/log", os.O_RDWR)
TABLE = os.open("/tmp/mnt/table", os.O_RDWR)
for file in LOG, TABLE:
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
end

# ask CODE [COMMAND…]: run this code, with the functions above.
ask() {
	code=$1
	shift
	PYTHONPATH=/tmp "$@" python3 -c "from ask import *
$code" || fail "$code"
}

# expect_reads TEXT CODE [COMMAND…]: the reads of the code have these deadlines in ms.
expect_reads() {
	want=$1
	shift
	echo >$trace/trace
	ask "$@"
	got=$(sed -n 's/.*deadline_read: .* deadline=\([0-9]*\).*/\1/p' $trace/trace |
		awk '{ printf "%s%g", n++ ? " " : "", $1 / 1000000 }')
	[ "$got" = "$want" ] || fail "$1: deadlines of reads are $got, not $want"
}

disk ssd
scheduler split-deadline
# After a mount a thread reads bitmaps ahead, which would be one more reader.
file_system -o no_prefetch_block_bitmaps
for file in log table; do
	dd if=/dev/zero of=/tmp/mnt/$file bs=1M count=48 conv=fsync status=none
done
echo 1 >$trace/events/sluice/deadline_read/enable

# A file's deadline does not affect another file; it ends with /dev/sluice, can be changed, and moves to another file.
expect_reads "50 5 50 7 50 50 5 50" 's = opened(); read(LOG); expect("5 ms", deadline(s, LOG, 5000), 0)
read(LOG); read(TABLE); expect("7 ms", deadline(s, LOG, 7000), 0); read(LOG); read(TABLE)
expect("another", deadline(s, TABLE, 5000), 0); read(LOG); read(TABLE); os.close(s); read(TABLE)'
# Another descriptor of the same open file has the deadline too, another opening of the file doesn't.
expect_reads "5 50" 's = opened(); deadline(s, LOG, 5000); read(os.dup(LOG)); read(os.open("/tmp/mnt/log", os.O_RDONLY))'
# Its fsyncs have a deadline of their own, or none.
expect_reads "50 9" 's = opened(); deadline(s, LOG, 0, 5000); read(LOG); deadline(s, LOG, 9000, 5000); read(LOG)'
# Past the page cache, and many at once, in either order.
direct='D = os.open("/tmp/mnt/log", os.O_RDONLY | os.O_DIRECT); E = os.open("/tmp/mnt/table", os.O_RDONLY | os.O_DIRECT); s = opened()
deadline(s, D, 5000)'
expect_reads "5 50" "$direct; read_direct(D); read_direct(E)"
expect_reads "5 50 5 50" "$direct; read_at_once(D, E, D, E)"
expect_reads "50 5 5 50 5" "$direct; read_at_once(E, D, D, E, D)"

# While no file of a disk has a deadline, its reads are not looked at, whatever files of another disk have one.
looks() {
	echo >$trace/trace
	ask "$@"
	grep -c ' looks: ' $trace/trace || true
}
(
	DISK=d2 disk ssd
	scheduler split-deadline
	mkfs.ext4 -q -E nodiscard,lazy_itable_init=0 "$DEV" 256m
	mkdir /tmp/other
	mount "$DEV" /tmp/other
	dd if=/dev/zero of=/tmp/other/log bs=1M count=48 conv=fsync status=none
	echo 'p:looks split:split_read' >$trace/kprobe_events
	echo 1 >$trace/events/kprobes/looks/enable
	other='s = opened(); O = os.open("/tmp/other/log", os.O_RDWR); deadline(s, O, 5000)'
	here=$(looks "$other; read(LOG); read(LOG)") there=$(looks "$other; read(O); read(O)")
	[ "$here $there" = "0 2" ] || fail "reads that were looked at: $here of a disk without deadlines, $there of 2 of one with"
	echo 0 >$trace/events/kprobes/looks/enable
	echo >$trace/kprobe_events
	umount /tmp/other
	scheduler none
)

# EBADF 9, EINVAL 22, ERANGE 34; nothing changes.
expect_reads "5" 's = opened(); deadline(s, LOG, 5000)
for us in 1, 99, 60000001, 4294967295:
    expect(us, deadline(s, LOG, us), 34); expect(us, deadline(s, LOG, 5000, us), 34)
expect("none", deadline(s, LOG, 0), 34)
W = os.open("/tmp/mnt/log", os.O_WRONLY); R = os.open("/tmp/mnt/log", os.O_RDONLY)
expect("write only", deadline(s, W, 5000), 22)
expect("read only", deadline(s, R, 5000, 5000), 22)
expect("no file", deadline(s, 999, 5000), 9)
read(LOG)'

# Without CAP_SYS_NICE no deadline for reads is accepted, longer or shorter: other users' reads would pass a gate.
cat >/tmp/as_nobody <<'end'
#!/bin/sh
exec setpriv --reuid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
end
chmod +x /tmp/as_nobody
chmod 666 /tmp/mnt/log /tmp/mnt/table
expect_reads "50 50" 's = opened(); expect("less", deadline(s, LOG, 5000), 1); read(LOG)
expect("more", deadline(s, LOG, 3000000), 1); expect("of both", deadline(s, LOG, 3000000, 3000000), 1)
expect("of fsyncs", deadline(s, LOG, 0, 3000000), 0); read(LOG)' /tmp/as_nobody

# /dev/sluice is opened and closed, and processes are killed, while the scheduler is changed and others read many at once.
for _ in 1 2 3 4; do
	ask "$direct
import ask
while True:
    s = opened(); deadline(s, D, 5000); ask.at = 0
    for _ in range(9): read_at_once(E, D, D, E); read_direct(D)
    os.close(s)" 2>/tmp/killed &
done
for _ in $(seq 5); do
	sleep 0.3
	scheduler none
	scheduler split-deadline
done
[ "$(pgrep -c python3)" = 4 ] || fail "of four readers are left $(pgrep -c python3)"
# shellcheck disable=SC2046
kill -KILL $(pgrep python3)
wait || true
umount /tmp/mnt
scheduler none

# The device has one request at a time, each for 50 ms; by place this read would be the last of 25.
DISK=d1 disk ssd queue_depth=1 slots=1
mkfs.ext4 -q -E nodiscard,lazy_itable_init=0 -O ^has_journal "$DEV" 256m
mount "$DEV" /tmp/mnt
for file in log table; do
	dd if=/dev/zero of=/tmp/mnt/$file bs=1M count=2 conv=fsync status=none
done
umount /tmp/mnt
echo 0 >"$_config/power"
for setting in slowdown=1000 read_cmd_ns=50000 write_cmd_ns=50000 read_lsb_ns=1 read_msb_ns=1 read_latency_ns=0; do
	echo "${setting#*=}" >"$_config/${setting%=*}"
done
echo 1 >"$_config/power"
mount -o noatime,no_prefetch_block_bitmaps "$DEV" /tmp/mnt
# beside_many FILE: the ms that a page of it takes.
beside_many() {
	scheduler split-deadline
	echo 64 >"$Q/nr_requests"
	echo 60000 >"$Q/iosched/read_deadline"
	ask "s = opened(); deadline(s, LOG, 400000)
classes = '/sys/kernel/debug/block/simdisk-d1/sched/classes'
while sum(int(line.split()[1]) for line in list(open(classes))[1:]) < 20: time.sleep(0.01)
began = time.monotonic(); read($1); open('/tmp/took', 'w').write(str(int(1000 * (time.monotonic() - began))))" &
	sleep 2
	fio --name=many --filename="$DEV" --direct=1 --bs=4k --ioengine=libaio --rw=randread --offset=512m --size=64m --iodepth=24 \
		--iodepth_batch=24 --number_ios=24 --output=/dev/null &
	wait
	scheduler none
	cat /tmp/took
}
log=$(beside_many LOG)
table=$(beside_many TABLE)
echo "log $log ms, table $table ms"
[ "$log" -le 500 ] || fail "a read within 400 ms takes $log ms"
[ "$table" -ge 700 ] || fail "a read within a minute takes $table ms beside 24 others"
umount /tmp/mnt
rmmod split-deadline split sluice-cause
