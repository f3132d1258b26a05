# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-token
# While a cgroup is in debt, calls of processes without a rate aren't asked about.
. ./lib.sh

tracing=/sys/kernel/tracing

in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$G/$1" "$@"
}

# asked: how often the framework was about to ask the policy.
asked() {
	grep -c ": split_enter" $tracing/trace || :
}

disk ssd
scheduler split-token
weights
file_system
mkdir "$G/b" "$G/weight"
echo 4096 >"$G/b/io.sluice.rate"
echo 200 >"$G/weight/io.sluice.weight"
in_group b dd if=/dev/zero of=/tmp/mnt/debt bs=1M count=1 status=none
echo split_enter >$tracing/set_ftrace_filter
echo function >$tracing/current_tracer
in_group b dd if=/dev/zero of=/tmp/mnt/held bs=4k count=1 status=none &
held=$!
for _ in $(seq 100); do
	! grep -q reason=tokens /sys/kernel/debug/split/held || break
	sleep 0.02
done
grep -q reason=tokens /sys/kernel/debug/split/held || fail "nothing is held: $(cat /sys/kernel/debug/split/held)"
[ "$(asked)" -gt 0 ] || fail "the trace shows nothing"
for group in . weight; do
	before=$(asked)
	in_group $group dd if=/dev/zero of=/tmp/mnt/file bs=4k count=1000 status=none
	times=$(($(asked) - before))
	[ $times -lt 50 ] || fail "of a thousand writes in cgroup $group the policy was asked about $times"
done
echo nop >$tracing/current_tracer
echo >$tracing/set_ftrace_filter
kill $held
wait $held || :
umount /tmp/mnt
scheduler none
rmmod split-token
expect_dmesg_clean
