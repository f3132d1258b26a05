# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# A appends 4 KiB and makes it durable, again and again. Beside it, if BIG isn't empty, B from time to time writes 1024 blocks
# to random places of a file of 2 GiB. It makes them durable (fsync) or leaves them to the kernel (writeback). Each has the
# paper's deadline (Table 3).
if [ "$FS" = xfs ]; then
	mkfs.xfs -q -K -d size=24g "$DEV"
	mkdir -p /tmp/mnt
	mount "$DEV" /tmp/mnt
	fallocate -l 2g /tmp/mnt/f0
	inode=$(stat -c %i /tmp/mnt/f0)
	umount /tmp/mnt
	# Blocks that are allocated but unwritten would be converted one at a time. ext4's mkfs can mark them written; here the
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

# Between bursts a disk gets time to recover, and so does flash.
if [ "$(cat "$Q/rotational")" = 1 ]; then
	period=10 small=100000 big=6000000
else
	period=2 small=3000 big=100000
fi
# The kernel writes the data that is left to it after a second.
if [ "$BIG" = writeback ]; then
	sysctl -qw vm.dirty_expire_centisecs=100 vm.dirty_writeback_centisecs=50
fi
weights
mkdir "$G/a" "$G/b"
if [ -e "$G/a/io.sluice.deadline" ]; then
	echo fsync=$small >"$G/a/io.sluice.deadline"
	echo fsync=$big >"$G/b/io.sluice.deadline"
fi

# fio can't write bursts, nor report the time of an fsync, so this writes the same files as fio would. If B makes fsyncs, only
# those of A's fsyncs are counted that were under way beside one of B's.
measure() {
	python3 - "$RUNTIME" "$period" "$SEED" "$BIG" "$G" <<-'END'
		import collections, json, os, random, sys, time

		length, period, seed, big, groups = float(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:]
		begin = time.monotonic()

		def left():
		    return begin + length - time.monotonic()

		def fsync(file, ended):
		    start = time.monotonic_ns()
		    os.fsync(file)
		    ended.append((start, time.monotonic_ns()))

		def appends():
		    file, ended = os.open("/tmp/mnt/small", os.O_WRONLY | os.O_CREAT | os.O_APPEND), []
		    while left() > 0:
		        os.write(file, block)
		        fsync(file, ended)
		    return ended, len(ended)

		def bursts():
		    random.seed(int(seed))
		    file, ended, count = os.open("/tmp/mnt/f0", os.O_WRONLY), [], 0
		    pages = os.fstat(file).st_size // len(block)
		    while left() > 0:
		        for _ in range(1024):
		            os.pwrite(file, block, random.randrange(pages) * len(block))
		        if big == "fsync":
		            fsync(file, ended)
		        count += 1
		        time.sleep(max(0.0, begin + count * period - time.monotonic()))
		    return ended, count * 1024

		def leave(name, fsyncs, blocks):
		    took = [end - start for start, end in fsyncs]
		    none = {"bins": {}, "N": 0, "mean": 0, "max": 0}
		    mean = sum(took) / max(len(took), 1)
		    bins = {"bins": collections.Counter(took), "N": len(took), "mean": mean, "max": max(took, default=0)}
		    sync = {"total_ios": len(took), "lat_ns": bins}
		    write = {"total_ios": blocks, "runtime": (length - min(left(), 0)) * 1000}
		    write |= {"io_bytes": blocks * len(block), "clat_ns": none, "lat_ns": none}
		    job = {"jobname": name, "read": {"total_ios": 0}, "write": write, "sync": sync, "usr_cpu": 0, "sys_cpu": 0}
		    with open(f"/out/fio-{name}.json", "w") as out:
		        json.dump({"jobs": [job]}, out)

		def join(group):
		    with open(f"{groups}/{group}/cgroup.procs", "w") as procs:
		        procs.write("0")

		block = bytes(4096)
		mine, others = os.pipe()
		if os.fork() == 0:
		    join("b")
		    ended = []
		    if big:
		        ended, blocks = bursts()
		        leave("big", ended, blocks)
		    os.write(others, json.dumps(ended).encode())
		    sys.exit()
		os.close(others)
		join("a")
		ended, blocks = appends()
		beside = json.load(os.fdopen(mine))
		if big == "fsync":
		    ended = [one for one in ended if any(one[1] > start and one[0] < end for start, end in beside)]
		leave("small", ended, blocks)
		sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
	END
}

watched measure
