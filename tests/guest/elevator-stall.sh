# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: split-noop wrr
# each
# cpus: 2
# dmesg: timeout error|I/O error|has waited for|all requests go
# No elevator leaves a request waiting, and none is blamed for a drive that hangs. If one does, as with a planted bug, it is a FIFO
# soon, nothing is lost, and a scheduler can be chosen again.
. ./lib.sh

config=/sys/kernel/config/simdisk/d0

# stalls: how many requests the elevator had left waiting.
stalls() {
	cat "$Q/iosched/stalls"
}

disk ssd sectors=262144
scheduler "$SCHEDULER"
for wrong in -1 86401 x; do
	if echo $wrong >"$Q/iosched/stall_s" 2>/dev/null; then
		fail "stall_s may be $wrong"
	fi
done
echo 2 >"$Q/iosched/stall_s"

fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=16 --bsrange=4k-64k --size=16m --offset_increment=16m \
	--rw=randwrite --fsync=32 --verify=crc32c --verify_backlog=64 --verify_fatal=1 --time_based --runtime=12 \
	--output=/out/fio --name=high --prioclass=1 --name=middle --prioclass=2 --prio=3 --name=low --prioclass=3 ||
	fail "the load failed: $(cat /out/fio)"
stalls=$(stalls)
if [ "$stalls" != 0 ]; then
	for message in "has waited for" "all requests go in the order in which they came"; do
		dmesg | grep -q "$SCHEDULER: simdisk-d0: .*$message" || fail "no message: $message"
	done
fi

# Each command hangs until it has timed out: for longer than the limit the drive keeps what waits from it.
scheduler none
scheduler "$SCHEDULER"
[ "$(stalls)" = 0 ] || fail "the stalls stay"
echo 2 >"$Q/iosched/stall_s"
echo 6000 >"$Q/io_timeout"
echo 1 >$config/hang_every
fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=128 --bs=4k --size=16m --rw=randread \
	--number_ios=128 --output=/out/fio --name=hangs >/dev/null 2>&1 || :
echo 0 >$config/hang_every
[ "$stalls" = 0 ] || fail "$stalls requests were left waiting, and went in the order in which they came"
[ "$(stalls)" = 0 ] || fail "the drive hung, and the elevator is blamed: $(dmesg | tail)"
