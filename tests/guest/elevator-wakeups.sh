# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: mq-prio cpq sluice afq split-token split-deadline split-noop wrr
# race: only
# Eight processes of all priorities, two on each CPU, read and write a little and wait for one another, hundreds of times. A
# lost wakeup would make all of them wait for ever.
. ./lib.sh

cat >/tmp/rounds.py <<'END'
import ctypes, mmap, os, random, select, sys

ROUNDS, PROCESSES, SYS_IOPRIO_SET = int(sys.argv[2]), 8, 251
PRIORITIES = (1 << 13, 1 << 13 | 7, 2 << 13, 2 << 13 | 2, 2 << 13 | 4, 2 << 13 | 7, 3 << 13, 3 << 13)


def work(number: int, go: int, done: int) -> None:
    """Each round one to three requests in 64 KiB of its own; what was written is read back."""
    os.sched_setaffinity(0, [number % 4])
    assert ctypes.CDLL(None).syscall(SYS_IOPRIO_SET, 1, 0, PRIORITIES[number]) == 0
    device = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
    page, written, dice = mmap.mmap(-1, 4096), {}, random.Random(number)
    while os.read(go, 1):
        for _ in range(dice.randrange(1, 4)):
            at = number * 65536 + dice.randrange(16) * 4096
            if at in written and dice.randrange(2):
                assert os.preadv(device, [page], at) == 4096
                assert page[:8] == written[at], f"at {at} is {page[:8]!r}, not {written[at]!r}"
            else:
                written[at] = page[:8] = dice.randbytes(8)
                assert os.pwritev(device, [page], at) == 4096
        os.write(done, bytes([number]))
    os._exit(0)


done, ends = os.pipe()
goes = []
for number in range(PROCESSES):
    wait, go = os.pipe()
    goes.append(go)
    if not os.fork():
        for other in goes:
            os.close(other)
        work(number, wait, ends)
for turn in range(ROUNDS):
    for go in goes:
        os.write(go, b"x")
    missing = set(range(PROCESSES))
    while missing:
        # A busy host may be very slow.
        if not select.select([done], [], [], 300)[0]:
            sys.exit(f"in round {turn} processes {sorted(missing)} wait for ever")
        missing -= set(os.read(done, PROCESSES))
for go in goes:
    os.close(go)
for _ in goes:
    assert os.wait()[1] == 0
END

# rounds NUMBER
rounds() {
	python3 /tmp/rounds.py "$DEV" "$1" 2>/tmp/said || fail "$(cat /tmp/said "$state"/* 2>/dev/null)"
}

many=100
case $(uname -r) in *kcsan*) many=20 ;; esac
state=/sys/kernel/debug/block/simdisk-d0/sched
for settings in "ssd queues=1 queue_depth=1 slots=1" "nvme queue_depth=2 slots=4"; do
	# shellcheck disable=SC2086  # words on purpose
	disk $settings slowdown=1
	scheduler "$SCHEDULER"
	rounds $many
	[ ! -e "$Q/iosched/hold_ms" ] || echo 1 >"$Q/iosched/hold_ms"
	rounds $((many * 2))
	! grep -h ^busy= /sys/kernel/debug/block/simdisk-d0/hctx*/*tags | grep -v =0 || fail "tags are lost"
	scheduler none
	echo 0 >/sys/kernel/config/simdisk/d0/power
	rmdir /sys/kernel/config/simdisk/d0
done
