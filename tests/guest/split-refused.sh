# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# kernels: 6.1 6.12
# cpus: 2
# race: too
# Where a policy is refused, the kernel falls back to none. What the scheduler before left in the queue must not stay there: with
# mq-deadline's flag that running one hardware queue is enough, journal commits wait for ever in another one.
# On 7.x nothing can be refused so: ftrace can't be turned off any more.
. ./lib.sh

state() {
	cat /sys/kernel/debug/block/simdisk-d0/state
}

disk nvme
file_system
scheduler none
state >/tmp/none
scheduler mq-deadline
load split-noop
sysctl -qw kernel.ftrace_enabled=0
if echo split-noop 2>/dev/null >"$Q/scheduler"; then
	fail "a policy is accepted without ftrace"
fi
sysctl -qw kernel.ftrace_enabled=1
grep -q '\[none\]' "$Q/scheduler" || fail "after the refusal the scheduler is $(cat "$Q/scheduler")"
for cpu in $(seq 0 $(($(nproc) - 1))); do
	# shellcheck disable=SC2016  # of the inner shell
	taskset -c "$cpu" sh -c 'for _ in $(seq 100); do
			dd if=/dev/zero of="/tmp/mnt/$0" bs=4k count=1 conv=fsync,notrunc status=none
		done' "$cpu" &
	writers="${writers-} $!"
done
for writer in $writers; do
	for _ in $(seq 600); do
		kill -0 "$writer" 2>/dev/null || continue 2
		sleep 0.1
	done
	fail "a commit waits for ever: the queue's state is $(state), and was $(cat /tmp/none)"
done
[ "$(state)" = "$(cat /tmp/none)" ] || fail "the queue's state is $(state), and was $(cat /tmp/none)"
