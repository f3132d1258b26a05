# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# cpus: 2
# Schedulers, the number of tags and knobs change under load; a module in use stays, one that isn't goes.
. ./lib.sh

# Several ranks write, flush and read back what they wrote, until told that it is enough.
start_load() {
	job="--rw=randwrite --bsrange=4k-64k --iodepth=16 --size=2m --verify=crc32c --verify_backlog=32 --fsync=16"
	# shellcheck disable=SC2086  # words on purpose
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --time_based --runtime=60 --verify_fatal=1 \
		--trigger-file=/tmp/enough --output=/out/fio \
		--name=rt $job --prioclass=1 --prio=2 --name=be1 $job --prioclass=2 --prio=1 --offset=16m \
		--name=be7 $job --prioclass=2 --prio=7 --offset=32m --name=idle $job --prioclass=3 --offset=48m &
	load=$!
}

running() {
	kill -0 $load 2>/dev/null || fail "the load ended: $(cat /out/fio)"
}

disk ssd slowdown=1
for name in mq-prio bfq kyber; do
	scheduler $name
done
start_load
sleep 0.5
for name in none mq-prio mq-deadline mq-prio bfq mq-prio kyber mq-prio none mq-prio; do
	scheduler $name
	running
	sleep 0.02
	[ $name = mq-prio ] || continue
	# In use, by the queue.
	if rmmod mq_prio 2>/dev/null; then
		fail "the module in use went"
	fi
	for tags in 4 5 64 256; do
		echo $tags >"$Q/nr_requests"
		sleep 0.01
	done
	for value in 1 50 10; do
		echo $value >"$Q/iosched/low_share"
		echo $((value * 10 - 10)) >"$Q/iosched/hold_ms"
		sleep 0.01
	done
	running
done

# Without a queue that uses it, it goes and comes under load.
for _ in 1 2; do
	scheduler none
	rmmod mq_prio
	scheduler mq-prio
	sleep 0.02
done
running
touch /tmp/enough
wait $load || fail "the load failed: $(cat /out/fio)"
grep -q READ: /out/fio || fail "nothing was read back"
scheduler none
rmmod mq_prio
