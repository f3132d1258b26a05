# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# debug
# A call that must not wait is refused, and io_uring's worker waits in its place; libaio's caller waits itself.
. ./lib.sh

# direct_write: overwrite a block by a call that must not wait.
direct_write() {
	xfs_io -d -c "pwrite -N -V 1 0 4096" file >/tmp/log 2>&1
	! grep -q pwrite: /tmp/log
}

# engine NAME HELD OPTION…: an engine's writes are held, HELD at once, and all are done after that.
engine() {
	name=$1 held=$2
	shift 2
	hold write
	fio --name="$name" --filename=/tmp/mnt/file --rw=randwrite --bs=4k --size=64k --fallocate=none --ioengine="$name" \
		--verify=crc32c --do_verify=1 --output=/out/fio "$@" &
	wait_held "$held" write
	sleep 0.3
	wait_held "$held" write
	hold
	wait $! || fail "$name $* fails: $(cat /out/fio)"
	grep -q "err= 0" /out/fio || fail "$name $*: $(cat /out/fio)"
}

disk ssd
file_system
cd /tmp/mnt || exit
dd if=/dev/zero of=file bs=64k count=1 oflag=direct conv=fsync status=none
# 7.x turns such a write away by itself.
direct_write && may=1
scheduler split-noop
[ -z "${may-}" ] || direct_write || fail "an open gate turns a write away: $(cat /tmp/log)"
hold write
if direct_write; then
	fail "a closed gate lets a write pass"
fi
grep -q "Resource temporarily unavailable" /tmp/log || fail "what must not wait fails with $(cat /tmp/log)"
wait_held 0
kinds >"$Q/iosched/hold"
[ -z "${may-}" ] || direct_write || fail "a policy that holds nothing turns a write away: $(cat /tmp/log)"

# On 6.1 one worker at a time makes all of io_uring's writes to a file; on later kernels direct writes have a worker each.
case $(uname -r) in
6.1.*) workers=1 ;;
*) workers=4 ;;
esac
engine io_uring 1
engine io_uring $workers --direct=1 --iodepth=4
engine libaio 1 --direct=1 --iodepth=4

# The fsyncs of io_uring are held, those of libaio aren't: a kernel thread makes them.
hold fsync
fio --name=uring --filename=/tmp/mnt/file --rw=write --bs=4k --size=16k --fsync=1 --ioengine=io_uring --output=/out/fio &
wait_held 1 fsync
hold
wait $! || fail "io_uring's fsync fails: $(cat /out/fio)"
cd /
umount /tmp/mnt
