# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: mq-prio cpq sluice afq split-token split-deadline split-noop wrr
# full: afq split-token split-deadline
# cpus: 2
# each
# Schedulers, the number of tags and knobs change under load; a module that is in use can't be unloaded, another can.
. ./lib.sh

# Several ranks write, flush and verify what they wrote, until /tmp/enough is there.
start_load() {
	job="--rw=randwrite --bsrange=4k-64k --iodepth=16 --size=2m --verify=crc32c --verify_backlog=32 --fsync=16"
	# shellcheck disable=SC2086  # words on purpose
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --time_based --runtime=6000 --verify_fatal=1 \
		--trigger-file=/tmp/enough --output=/out/fio \
		--name=rt $job --prioclass=1 --prio=2 --name=be1 $job --prioclass=2 --prio=1 --offset=16m \
		--name=be7 $job --prioclass=2 --prio=7 --offset=32m --name=idle $job --prioclass=3 --offset=48m &
	load=$!
}

running() {
	kill -0 $load 2>/dev/null || fail "the load ended: $(cat /out/fio)"
}

# change VALUE: set the knobs to one of three sets of values.
change() {
	case $SCHEDULER in
	afq) set -- think_time_us $(($1 * 1000)) starvation_ms $(($1 * 500 + 1)) quantum $(($1 * 4096)) max_lag_kib $(($1 * 256)) burst_ms $(($1 * 100)) ;;
	split-token) set -- burst_ms $(($1 * 100)) ;;
	split-deadline) set -- fsync_deadline $(($1 * 500 + 1)) read_deadline $(($1 * 50 + 1)) ;;
	split-noop | wrr) set -- ;;
	mq-prio) set -- low_share $(($1 * 9 + 1)) hold_ms $(($1 * 400)) ;;
	sluice) set -- low_share $(($1 * 9 + 1)) hold_ms $(($1 * 400)) burst_ms $(($1 * 100)) ;;
	cpq)
		set -- read_expire $(($1 * 250)) write_expire $(($1 * 2500)) writes_starved $(($1 + 1)) \
			front_merges $(($1 % 2)) fifo_batch $(($1 * 8 + 1)) async_depth $(($1 * 60 + 1)) \
			prio_aging_expire $(($1 * 5)) fore_timeout $(($1 * 100 + 1)) back_timeout $(($1 * 50 + 1)) \
			slice_idle $(($1 * 1000)) io_threshold $(((2 - $1) * 500)) cpq_log $(($1 % 2)) \
			max_tgroup_io_ratio $((100 - $1 * 45)) adaptive_expire $(($1 % 2)) \
			writes_beside_reads $((2 - $1))
		if [ "$(cat "$Q/iosched/background")" = idle ]; then
			echo / >"$Q/iosched/background"
		else
			echo idle >"$Q/iosched/background"
		fi
		;;
	esac
	while [ $# -gt 0 ]; do
		echo "$2" >"$Q/iosched/$1" || fail "$1 refuses $2"
		shift 2
	done
}

module=$(echo "$SCHEDULER" | tr - _)
mkdir -p /tmp/cgroup
mount -t cgroup2 none /tmp/cgroup
disk ssd slowdown=1
for name in "$SCHEDULER" bfq kyber; do
	scheduler "$name"
done
start_load
sleep 0.5
for name in none "$SCHEDULER" mq-deadline "$SCHEDULER" bfq "$SCHEDULER" kyber "$SCHEDULER" none "$SCHEDULER"; do
	scheduler "$name"
	running
	sleep 0.02
	[ "$name" = "$SCHEDULER" ] || continue
	# The queue uses the module.
	if rmmod "$module" 2>/dev/null; then
		fail "the module in use went"
	fi
	for tags in 4 5 64 256; do
		echo $tags >"$Q/nr_requests"
		sleep 0.01
	done
	for value in 0 1 2 1; do
		change $value
		sleep 0.01
	done
	running
done

# Unused by a queue, the module is unloaded and loaded under load.
for _ in 1 2; do
	scheduler none
	rmmod "$module"
	scheduler "$SCHEDULER"
	sleep 0.02
done
running
touch /tmp/enough
wait $load || fail "the load failed: $(cat /out/fio)"
grep -q READ: /out/fio || fail "nothing was read back"
! grep -h ^busy= /sys/kernel/debug/block/simdisk-d0/hctx*/*tags | grep -v =0 || fail "tags are lost"
scheduler none
rmmod "$module"
