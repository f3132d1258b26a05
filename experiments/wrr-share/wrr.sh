# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# Applications that each have an I/O priority, or a cgroup with a weight, read at random from a drive that fetches by
# ARBITRATION. The figure of each is the bytes that it reads between two moments at which all of them are reading. The first
# application also computes, with COMPUTE processes in the same place: if PLACES has an entry NAME:CPU, it is confined to that
# processor.
drive=/sys/kernel/config/simdisk/d0
echo "$ARBITRATION" >$drive/arbitration
# shellcheck disable=SC2046
show $drive $(ls $drive) >/out/device

[ -z "$LIMIT" ] || weights
if [ "$LIMIT" = io.cost ]; then
	# The drive's limit for commands of this size.
	command_ns=$(cat $drive/read_cmd_ns) bytes=$((${BLOCK%k} * 1024))
	transfer_ns=$((bytes * 1000 / $(cat $drive/link_mbps)))
	[ "$transfer_ns" -gt "$command_ns" ] || transfer_ns=$command_ns
	bps=$((1000000000 * bytes / (transfer_ns * $(cat $drive/slowdown))))
	# A command costs only its bytes.
	iops=$((bps / 4096))
	echo "$(cat "$Q/../dev") ctrl=user model=linear rbps=$bps rseqiops=$iops rrandiops=$iops wbps=$bps wseqiops=$iops" \
		"wrandiops=$iops" >"$G/io.cost.model"
	echo "$(cat "$Q/../dev") enable=1 ctrl=user rpct=0 rlat=0 wpct=0 wlat=0 min=100 max=100" >"$G/io.cost.qos"
fi

# in_place NAME COMMAND…: run a command where an application may run.
in_place() {
	cpus=$(echo "$PLACES" | tr ' ' '\n' | sed -n "s/^$1://p")
	shift
	exec taskset -c "${cpus:-0-$(($(nproc) - 1))}" "$@"
}

# application NAME CLASS LEVEL DEPTH WEIGHT: read until told to end.
application() {
	if [ -n "$LIMIT" ]; then
		mkdir "$G/$1"
		case $LIMIT in
		io.cost) echo "default $5" >"$G/$1/io.weight" ;;
		*) echo "$5" >"$G/$1/$LIMIT" ;;
		esac
		echo 0 >"$G/$1/cgroup.procs"
		set -- "$1" 2 4 "$4"
	fi
	in_place "$1" fio --name="$1" --filename="$DEV" --direct=1 --invalidate=0 --ioengine=libaio --rw=randread --norandommap=1 \
		--bs="$BLOCK" --size=16g --numjobs=4 --iodepth="$4" --prioclass="$2" --prio="$3" --group_reporting=1 \
		--randseed="$SEED" --time_based=1 --runtime=1000 --ramp_time=2 --lat_percentiles=1 --clat_percentiles=1 \
		--output-format=json+ --output="/out/fio-$1.json"
}

measure() {
	readers=
	for application in $APPLICATIONS; do
		# shellcheck disable=SC2046
		(application $(echo "$application" | tr : ' ')) &
		readers="$readers ${application%%:*}=$!"
	done
	spinners=
	for _ in $(seq "$COMPUTE"); do
		(in_place "${APPLICATIONS%%:*}" sh -c 'while :; do :; done') &
		spinners="$spinners $!"
	done
	# Bytes a second of each, and processors used to compute, from the moment when all have begun and their first requests
	# are done.
	# shellcheck disable=SC2086
	python3 - "$RUNTIME" "$spinners" $readers >/out/readings <<-'END'
		import os, pathlib, sys, time

		def read(parent):
		    jobs = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
		    texts = [pathlib.Path(f"/proc/{job}/io").read_text() for job in jobs]
		    return [int(text.split("read_bytes: ")[1].split()[0]) for text in texts]

		def computed():
		    stats = [pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in spinners]
		    return sum(int(stat[11]) for stat in stats) / os.sysconf("SC_CLK_TCK")

		spinners = sys.argv[2].split()
		readers = dict(word.split("=") for word in sys.argv[3:])
		deadline = time.monotonic() + 60
		while any(len(found := read(parent)) < 4 or not all(found) for parent in readers.values()):
		    if time.monotonic() > deadline:
		        sys.exit("not begun within a minute: " + str({name: read(of) for name, of in readers.items()}))
		    time.sleep(0.1)
		time.sleep(1)
		before, began, computing = {name: sum(read(parent)) for name, parent in readers.items()}, time.monotonic(), computed()
		time.sleep(float(sys.argv[1]))
		after, ended, computing = {name: sum(read(parent)) for name, parent in readers.items()}, time.monotonic(), computed() - computing
		for name in readers:
		    print(name, round((after[name] - before[name]) / (ended - began)))
		if spinners:
		    print("compute", computing / (ended - began))
	END
	# shellcheck disable=SC2086
	[ -z "$spinners" ] || kill $spinners
	for reader in $readers; do
		kill "${reader#*=}"
	done
	for reader in $readers; do
		wait "${reader#*=}" || true
	done
}

watched measure
