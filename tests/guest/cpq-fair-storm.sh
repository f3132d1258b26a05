# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# cpus: 2
# full
# race: too
# dmesg: I/O error
# Hundreds of tasks wait for a tag. Meanwhile schedulers, the number of tags, weights and the knob change, the module is loaded
# and unloaded, and the disk is unplugged. No task is forgotten, nothing is lost, and the books balance (the kernel would warn).
. ./lib.sh

# The kernel that reports data races takes many times as long, and reports them sooner.
threads=100 waiters=160
[ ! -e /sys/kernel/debug/kcsan ] || threads=30 waiters=20

accounts=/sys/kernel/debug/block/simdisk-d0/sched/accounts
cgroups=/sys/fs/cgroup

# start_load: many threads in each of two weighted cgroups and in one without a weight, and a queue of each asynchronous engine.
start_load() {
	loads=
	for group in a b c; do
		sh -euc 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh $cgroups/$group \
			fio --thread --name=$group --filename="$DEV" --direct=1 --ioengine=psync --numjobs=$threads --rw=randrw \
			--bs=4k --size=64m --time_based --runtime=6000 --group_reporting --output=/out/$group &
		loads="$loads $!"
	done
	for engine in libaio io_uring; do
		fio --thread --name=$engine --filename="$DEV" --direct=1 --ioengine=$engine --iodepth=128 --rw=randrw \
			--bs=4k --size=64m --time_based --runtime=6000 --output=/out/$engine &
		loads="$loads $!"
	done
	for _ in $(seq 6000); do
		waiting=$(awk '/^tags=/ { sub("waiting=", "", $3); sum += $3 } END { print sum }' $accounts)
		[ "$waiting" -lt $waiters ] || return 0
		sleep 0.01
	done
	fail "too few wait: $(cat $accounts)"
}

# done_by PROCESS: the reads and writes that a process called for, and those that the disk did for it.
done_by() {
	awk '$1 != "wchar:" && $1 != "rchar:" { sum += $2 } END { print sum }' "/proc/$1/io"
}

done_all() {
	for load in $loads; do
		done_by "$load"
	done
}

# going: each of the load's processes makes progress within 2 s, or within a minute on a busy host.
going() {
	# shellcheck disable=SC2046  # words on purpose
	set -- $(done_all)
	tries=$((${RACE-0} ? 1200 : 40))
	for load in $loads; do
		until [ "$(done_by "$load")" -gt "$1" ]; do
			[ "$tries" -gt 0 ] || fail "process $load stands still: $(cat "$Q/scheduler" $accounts)"
			tries=$((tries - 1))
			sleep 0.05
		done
		shift
	done
}

mkdir $cgroups/a $cgroups/b $cgroups/c
echo +io >$cgroups/cgroup.subtree_control
disk emmc data=none slowdown=4
scheduler cpq
echo 64 >"$Q/nr_requests"
echo 300 >$cgroups/a/io.sluice.weight
echo 100 >$cgroups/b/io.sluice.weight
start_load
going
for name in none cpq mq-deadline cpq bfq cpq kyber cpq; do
	scheduler $name
	going
done
for tags in 4 256 5 64; do
	echo $tags >"$Q/nr_requests"
	going
done
for ratio in 1 100 33 50; do
	echo $ratio >"$Q/iosched/max_tgroup_io_ratio"
	going
done
for weight in 1 default 1000 100; do
	echo $weight >$cgroups/a/io.sluice.weight
	going
done
scheduler none
rmmod cpq
going
scheduler cpq
going

# When the disk is unplugged, all of them end with an error, and the module can be unloaded.
echo 0 >/sys/kernel/config/simdisk/d0/power
for load in $loads; do
	if wait "$load"; then
		fail "the load did not notice"
	fi
done
rmmod cpq
