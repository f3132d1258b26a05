# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# A reads a large file from its beginning on. Beside it, unless LOAD is empty, B runs LOAD on another file, in a cgroup of its
# own with the rate RATE. The files have 8 GiB: A never reaches the end, and B's places are far apart.
if [ "$FS" = xfs ]; then
	mkfs.xfs -q -K -d size=24g "$DEV"
	mkdir -p /tmp/mnt
	mount "$DEV" /tmp/mnt
	fallocate -l 8g /tmp/mnt/f0
	fallocate -l 8g /tmp/mnt/f1
	inodes=$(stat -c %i /tmp/mnt/f0 /tmp/mnt/f1)
	umount /tmp/mnt
	# XFS reads extents that it counts as unwritten without the disk. ext4's mkfs can mark them written; here the debugger
	# does.
	for inode in $inodes; do
		extents=$(xfs_db -r -c "inode $inode" -c "print core.nextents" "$DEV" | sed 's/.* = //')
		for extent in $(seq 0 $((extents - 1))); do
			xfs_db -x -c "inode $inode" -c "write u3.bmx[$extent].extentflag 0" "$DEV" >/dev/null
		done
	done
	mount "$DEV" /tmp/mnt
else
	large_files 2 8g
fi
# The places of the files are read before: the first process that needs them would wait for them, and pay.
filefrag /tmp/mnt/f0 /tmp/mnt/f1 >/dev/null

# After 30 s, the default, a short run would end before any of B's writes goes to the disk. B's data in memory must not go
# there. But a disk with few writes so far gets so small a part of the dirty limit that the kernel would write all of that data.
# The disk's least part, min_ratio, is scaled by its write speed relative to that of all disks.
if [ -z "$MEMORY" ]; then
	echo 100 >/proc/sys/vm/dirty_expire_centisecs
	echo 50 >/proc/sys/vm/dirty_writeback_centisecs
else
	echo 50 >"$Q/../bdi/min_ratio"
	sysctl -qw vm.dirty_ratio=95 vm.dirty_background_ratio=90
fi

DRIVE=/sys/kernel/config/simdisk/d0
BUCKETS=/sys/kernel/debug/block/${DEV#/dev/}/sched/buckets
weights
# With a memory cgroup the kernel's own limits know which process made a page dirty.
[ -z "$LIMIT" ] || echo +memory >"$G/cgroup.subtree_control"
mkdir "$G/a" "$G/b"
# An account of its own, before it has a rate: data that is dirty by then would be charged to another account.
[ ! -e "$G/b/io.sluice.weight" ] || echo 100 >"$G/b/io.sluice.weight"

# share RATE: io.cost has no rates but weights. B's is the part of RATE in the disk's speed, and A has a cgroup as well. The
# speed is computed from the figures that the split framework has for drives of this kind, divided by the drive's slowdown.
share() {
	slowdown=$(cat "$DRIVE/slowdown")
	set -- "$1" 126000000 30000 76 126000000 30000 76
	[ "$(cat "$Q/rotational")" = 1 ] || set -- "$1" 250000000 60000 35000 70000000 17000 6600
	bps=$(($2 / slowdown))
	model="rbps=$bps rseqiops=$(($3 / slowdown)) rrandiops=$(($4 / slowdown))"
	model="$model wbps=$(($5 / slowdown)) wseqiops=$(($6 / slowdown)) wrandiops=$(($7 / slowdown))"
	echo "$(cat "$Q/../dev") ctrl=user model=linear $model" >"$G/io.cost.model"
	echo "$(cat "$Q/../dev") enable=1 ctrl=user rpct=0 rlat=0 wpct=0 wlat=0 min=100 max=100" >"$G/io.cost.qos"
	weight=$((10000 * $1 / bps))
	echo "default $weight" >"$G/b/io.weight"
	echo "default $((10000 - weight))" >"$G/a/io.weight"
}

# limit RATE: set B's rate, where something limits it.
limit() {
	case "$LIMIT $1 $(cat "$Q/scheduler")" in
	"io.cost max "*) echo "$(cat "$Q/../dev") enable=0" >"$G/io.cost.qos" ;;
	"io.cost "*) share "$1" ;;
	"io.max "*) echo "$(cat "$Q/../dev") rbps=$1 wbps=$1" >"$G/b/io.max" ;;
	*-token\]*) echo "$1" >"$G/b/io.sluice.rate" ;;
	esac
}

# in_b COMMAND…: a subshell becomes that command, as B.
in_b() {
	echo 0 >"$G/b/cgroup.procs"
	exec "$@"
}

# job NAME LETTER OPTION…
job() {
	name=$1 letter=$2
	shift 2
	set -- fio --name="$name" --output="/out/fio-$letter.json" --output-format=json+ --lat_percentiles=1 \
		--clat_percentiles=1 --ioengine=psync --zero_buffers=1 --fallocate=none --time_based=1 "$@"
	[ "$letter" = a ] || in_b nice -n "$NICE" "$@"
	[ "$LIMIT" != io.cost ] || echo 0 >"$G/a/cgroup.procs"
	exec "$@"
}

# creates SECONDS MILLISECONDS: make empty files, each durable before the next, with a pause between. fio can't do that, so this
# writes the same files as fio would.
creates() {
	in_b nice -n "$NICE" python3 - "$@" <<-'END'
		import collections, json, os, sys, time

		length, pause = int(sys.argv[1]) * 10**9, int(sys.argv[2]) / 1000
		took, begin = [], time.monotonic_ns()
		os.mkdir("/tmp/mnt/new")
		while (start := time.monotonic_ns()) - begin < length:
		    file = os.open(f"/tmp/mnt/new/{len(took)}", os.O_CREAT | os.O_WRONLY)
		    os.fsync(file)
		    os.close(file)
		    took.append(time.monotonic_ns() - start)
		    time.sleep(pause)
		ns = time.monotonic_ns() - begin
		user, system = (seconds * 10**11 / ns for seconds in os.times()[:2])
		mean = sum(took) / max(1, len(took))
		times = {"bins": collections.Counter(took), "N": len(took), "mean": mean, "max": max(took, default=0)}
		write = {"total_ios": len(took), "runtime": ns / 10**6, "io_bytes": 0, "clat_ns": times, "lat_ns": times}
		other = {"total_ios": 0}
		job = {"jobname": "throttled", "read": other, "write": write, "sync": other, "usr_cpu": user, "sys_cpu": system}
		with open("/out/fio-b.json", "w") as out:
		    json.dump({"jobs": [job]}, out)
	END
}

# B begins with A, so that B's work is steady when A is measured, WARM seconds later.
throttled() {
	length=$((WARM + RUNTIME))
	case $LOAD in
	"creates "*) creates $length "${LOAD#* }" ;;
	*)
		# A thousand threads open the file.
		# shellcheck disable=SC3045
		ulimit -n 4096
		# shellcheck disable=SC2086
		job throttled b --filename=/tmp/mnt/f1 --runtime=$length --thread --group_reporting=1 --norandommap=1 \
			--randseed="$SEED" --fadvise_hint=0 $LOAD
		;;
	esac
}

milliseconds() {
	echo $(($(date +%s%N) / 1000000))
}

# bucket: B's tokens and charge; nothing before B's first I/O.
bucket() {
	awk -v cgroup="$(stat -c %i "$G/b")" '$1 == cgroup { print $3, $4 }' "$BUCKETS"
}

# note_begin: wait for B's first I/O, until A is measured.
note_begin() {
	for _ in $(seq $((WARM * 50))); do
		[ -z "$(bucket)" ] || break
		sleep 0.02
	done
	milliseconds >/tmp/begun
}

# account: the normalised bytes a second that B has paid for, from its first I/O to its end. A debt isn't paid yet; dirty data
# is charged when it is written.
account() {
	[ -n "$(bucket)" ] || return 0
	[ -e /tmp/ended ] || milliseconds >/tmp/ended
	sync
	# shellcheck disable=SC2046
	set -- $(bucket)
	[ "$1" -lt 0 ] || set -- 0 "$2"
	echo "paid $((($1 + $2) * 1000 / ($(cat /tmp/ended) - $(cat /tmp/begun))))" >/out/readings
}

measure() {
	accounted=
	if [ -n "$LOAD" ] && [ -z "$MEMORY" ] && grep -qF "[split-token]" "$Q/scheduler"; then
		accounted=1
	fi
	[ -z "$LOAD" ] || {
		(throttled)
		milliseconds >/tmp/ended
	} &
	b=$!
	[ -z "$accounted" ] || note_begin &
	(job unthrottled a --filename=/tmp/mnt/f0 --size=8g --rw=read --bs=128k --ramp_time="$WARM" --runtime="$RUNTIME")
	# B has ended by itself, unless a large debt holds it.
	sleep "$WARM"
	[ -z "$accounted" ] || account
	limit max
	wait $b
}

# B makes the memory that it uses dirty before it has a rate, and locks it there: A's reads fill the guest's memory within
# seconds, and then the kernel would write the dirty pages that it finds.
if [ -n "$MEMORY" ]; then
	(in_b dd if=/dev/zero of=/tmp/mnt/f1 bs=1M count="$MEMORY" conv=notrunc status=none)
	python3 - "$MEMORY" >/tmp/locker 2>&1 <<-'END' &
		import mmap, os, sys, time

		MAP_LOCKED = 0x2000
		file = os.open("/tmp/mnt/f1", os.O_RDONLY)
		kept = mmap.mmap(file, int(sys.argv[1]) << 20, mmap.MAP_SHARED | MAP_LOCKED, mmap.PROT_READ)
		open("/tmp/locked", "w").close()
		time.sleep(3600)
	END
	locker=$!
	until [ -e /tmp/locked ]; do
		kill -0 "$locker" || fail "what B has in memory can't be locked there: $(cat /tmp/locker)"
		sleep 0.1
	done
fi
limit "$RATE"
watched measure
[ -z "$MEMORY" ] || kill "$locker"
