# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# A appends 4 KiB and makes it durable, again and again; beside it, if BIG isn't empty, B from time to time writes 1024
# blocks to random places of a file of 2 GiB, and makes them durable (fsync) or leaves them to the kernel (writeback).
# Each has the paper's deadline (Table 3).
if [ "$FS" = xfs ]; then
	mkfs.xfs -q -K -d size=24g "$DEV"
	mkdir -p /tmp/mnt
	mount "$DEV" /tmp/mnt
	fallocate -l 2g /tmp/mnt/f0
	inode=$(stat -c %i /tmp/mnt/f0)
	umount /tmp/mnt
	# What is allocated and not written would be converted, a block at a time. ext4's mkfs can call it written, here the
	# debugger does.
	extents=$(xfs_db -r -c "inode $inode" -c "print core.nextents" "$DEV" | sed 's/.* = //')
	for extent in $(seq 0 $((extents - 1))); do
		xfs_db -x -c "inode $inode" -c "write u3.bmx[$extent].extentflag 0" "$DEV" >/dev/null
	done
	mount "$DEV" /tmp/mnt
else
	# shellcheck disable=SC2086
	large_files 1 2g $MOUNT
fi
filefrag /tmp/mnt/f0 >/dev/null

# A disk's bursts leave it time between them; so do those of flash.
if [ "$(cat "$Q/rotational")" = 1 ]; then
	period=10 small=100000 big=6000000
else
	period=2 small=3000 big=100000
fi
# What is left to the kernel it writes after a second.
if [ "$BIG" = writeback ]; then
	sysctl -qw vm.dirty_expire_centisecs=100 vm.dirty_writeback_centisecs=50
fi
weights
mkdir "$G/a" "$G/b"
if [ -e "$G/a/io.sluice.deadline" ]; then
	echo fsync=$small >"$G/a/io.sluice.deadline"
	echo fsync=$big >"$G/b/io.sluice.deadline"
fi

# in_group NAME COMMAND…: a subshell becomes that command.
in_group() {
	echo 0 >"$G/$1/cgroup.procs"
	shift
	exec "$@"
}

# fio has nothing that writes in bursts, with an fsync each, so this leaves what fio would: its fsyncs, and what it wrote.
bursts() {
	in_group b python3 - "$RUNTIME" $period "$SEED" "$BIG" <<-'END'
		import collections, json, os, random, sys, time

		length, period, blocks = float(sys.argv[1]), float(sys.argv[2]), 1024
		random.seed(int(sys.argv[3]))
		file = os.open("/tmp/mnt/f0", os.O_WRONLY)
		pages, block, took, bursts = os.fstat(file).st_size // 4096, bytes(4096), [], 0
		begin = time.monotonic()
		while time.monotonic() - begin < length:
		    for _ in range(blocks):
		        os.pwrite(file, block, random.randrange(pages) * 4096)
		    if sys.argv[4] == "fsync":
		        start = time.monotonic_ns()
		        os.fsync(file)
		        took.append(time.monotonic_ns() - start)
		    bursts += 1
		    time.sleep(max(0.0, begin + bursts * period - time.monotonic()))
		ms = (time.monotonic() - begin) * 1000
		none = {"bins": {}, "N": 0, "mean": 0, "max": 0}
		mean = sum(took) / max(len(took), 1)
		bins = {"bins": collections.Counter(took), "N": len(took), "mean": mean, "max": max(took, default=0)}
		fsyncs = {"total_ios": len(took), "lat_ns": bins}
		ios = bursts * blocks
		write = {"total_ios": ios, "runtime": ms, "io_bytes": ios * 4096, "clat_ns": none, "lat_ns": none}
		job = {"jobname": "big", "read": {"total_ios": 0}, "write": write, "sync": fsyncs, "usr_cpu": 0, "sys_cpu": 0}
		with open("/out/fio-big.json", "w") as out:
		    json.dump({"jobs": [job]}, out)
	END
}

measure() {
	[ -z "$BIG" ] || bursts &
	(in_group a fio --name=small --filename=/tmp/mnt/small --ioengine=psync --bs=4k --zero_buffers=1 --fallocate=none \
		--time_based=1 --runtime="$RUNTIME" --lat_percentiles=1 --clat_percentiles=1 --size=256m --rw=write --fsync=1 \
		--output-format=json+ --output=/out/fio-small.json)
	wait
}

watched measure
