# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# full
# cpus: 2
# debug
# race: too
# Under calls of every kind gates close and open, and policies come and go with their module. The file system is frozen and
# synced, and tasks are killed while they are held. All calls go on, nothing is lost, and the file system is consistent.
. ./lib.sh

# names NUMBER: make, rename, change and remove names until /tmp/enough is there.
names() {
	while [ ! -e /tmp/enough ]; do
		mkdir "/tmp/mnt/folder$1"
		: >"/tmp/mnt/folder$1/a"
		mv "/tmp/mnt/folder$1/a" "/tmp/mnt/folder$1/b"
		ln "/tmp/mnt/folder$1/b" "/tmp/mnt/folder$1/c"
		chmod +x "/tmp/mnt/folder$1/c"
		perl -e "truncate('/tmp/mnt/folder$1/c', 5000) or die"
		rm "/tmp/mnt/folder$1/b" "/tmp/mnt/folder$1/c"
		rmdir "/tmp/mnt/folder$1"
		echo >>"/tmp/names$1"
	done
}

# syncs: make the file system durable until /tmp/enough is there.
syncs() {
	while [ ! -e /tmp/enough ]; do
		sync
		sync -f /tmp/mnt
		echo >>/tmp/syncs
	done
}

# victims: start writing processes and kill them, until /tmp/enough is there.
victims() {
	while [ ! -e /tmp/enough ]; do
		dd if=/dev/zero of=/tmp/mnt/victim bs=4k count=1000 status=none &
		sleep 0.05
		kill -KILL $! 2>/dev/null || : # it has ended before
		wait $! || echo >>/tmp/victims
	done
}

start_load() {
	# shellcheck disable=SC2086  # words on purpose
	fio --directory=/tmp/mnt --thread --size=2m --bs=4k --time_based --runtime=600 --rw=randwrite --fallocate=none \
		--verify=crc32c --verify_backlog=16 --verify_fatal=1 --trigger-file=/tmp/trigger --output=/out/fio \
		--name=buffered --fsync=8 --name=durable --sync=1 --name=direct --direct=1 --ioengine=libaio --iodepth=8 \
		--name=uring --ioengine=io_uring --iodepth=8 --fsync=16 --name=mapped --ioengine=mmap --fsync=8 &
	load=$!
	names 1 &
	loads=$!
	for loop in "names 2" syncs victims; do
		$loop &
		loads="$loads $!"
	done
}

done_so_far() {
	for file in names1 names2 syncs; do
		wc -l <"/tmp/$file"
	done
	awk '{ print $7 }' /sys/block/simdisk-d0/stat
}

# going: every process makes progress.
going() {
	# shellcheck disable=SC2046  # words on purpose
	set -- $(done_so_far)
	for _ in $(seq 1200); do
		kill -0 $load 2>/dev/null || fail "fio ended: $(cat /out/fio)"
		# shellcheck disable=SC2046
		if all_more "$@" $(done_so_far); then
			return 0
		fi
		sleep 0.05
	done
	fail "not all get on: $* $(done_so_far) $(cat /sys/kernel/debug/split/devices /sys/kernel/debug/split/held)"
}

all_more() {
	[ "$5" -gt "$1" ] && [ "$6" -gt "$2" ] && [ "$7" -gt "$3" ] && [ "$8" -gt "$4" ]
}

disk ssd slowdown=1
scheduler split-noop
file_system
touch /tmp/names1 /tmp/names2 /tmp/syncs
start_load
going
for kind in write fsync sync creat mkdir unlink rename truncate change; do
	hold $kind
	sleep 0.1
	hold
	kinds $kind >"$Q/iosched/gates"
	sleep 0.1
done
going
# Each round takes the debug kernel minutes of the host's time.
rounds="1 2 3"
[ "$(uname -r | grep -c debug)" = 0 ] || rounds=1
for _ in $rounds; do
	hold write fsync sync creat mkdir unlink rename truncate change
	sleep 0.2
	fsfreeze --freeze /tmp/mnt
	sleep 0.1
	hold write fsync
	fsfreeze --unfreeze /tmp/mnt
	sleep 0.1
	scheduler none
	scheduler split-noop
	going
	hold write fsync sync creat mkdir unlink rename truncate change
	sleep 0.2
	scheduler none
	rmmod split-noop
	rmmod split
	going
	scheduler split-noop
done
going
hold
touch /tmp/enough /tmp/trigger # which fio removes
wait $load || fail "fio failed: $(cat /out/fio)"
for loop in $loads; do
	wait "$loop" || fail "a loop failed"
done
[ -s /tmp/victims ] || fail "no process was killed"
umount /tmp/mnt
fsck.ext4 -nf "$DEV" >/out/fsck 2>&1 || fail "the file system is broken: $(cat /out/fsck)"
scheduler none
rmmod split-noop
rmmod split
