# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: mq-prio cpq
# Behind a busy device bios merge in front, behind and between, only within a rank, and the data stays right.
. ./lib.sh

tracing=/sys/kernel/tracing

# count EVENT
count() {
	grep -c " block_$1: " $tracing/trace
}

# merged EVENT LEAST NAME
merged() {
	[ "$(count "$1")" -ge "$2" ] || fail "$3: $(count "$1") of block_$1, expected $2"
}

# run FIO_OPTION…: one bio at a time, so that no plug merges them before the scheduler sees them.
run() {
	echo >$tracing/trace
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=32 --size=1m --bs=4k --output=/out/fio "$@" ||
		fail "fio: $*"
}

# replay NAME BATCH OFFSET[+SIZE]…: writes at these KiB, of 4 KiB unless SIZE is given; a batch of three or more is plugged.
replay() {
	name=$1 batch=$2
	shift 2
	printf 'fio version 2 iolog\n%s add\n%s open\n' "$DEV" "$DEV" >/tmp/iolog
	for offset; do
		size=4
		[ "$offset" = "${offset#*+}" ] || size=${offset#*+}
		echo "$DEV write $((${offset%+*} * 1024)) $((size * 1024))" >>/tmp/iolog
	done
	echo "$DEV close" >>/tmp/iolog
	echo >$tracing/trace
	fio --thread --direct=1 --ioengine=libaio --iodepth=48 --iodepth_batch="$batch" --read_iolog=/tmp/iolog \
		--output=/out/fio --name="$name" || fail "fio: $name: $(cat /out/fio)"
	cp $tracing/trace /out/trace
}

for profile in ssd hdd; do
	disk $profile queue_depth=1 slots=1
	scheduler "$SCHEDULER"
	echo 64 >"$Q/nr_requests"
	for event in bio_backmerge bio_frontmerge rq_merge; do
		echo 1 >$tracing/events/block/block_$event/enable
	done

	run --name=forward --rw=write --verify=crc32c
	merged bio_backmerge 100 "$profile, forward"
	run --name=backward --rw=write:-8k --offset=1m --verify=crc32c
	merged bio_frontmerge 100 "$profile, backward"
	run --name=gaps --rw=randwrite --offset=4m --verify=crc32c --size=128k --loops=8
	merged rq_merge 8 "$profile, gaps"
	# Most bios merge in front of another request than the last one, which the block layer checks by itself.
	merged bio_frontmerge 64 "$profile, gaps"
	run --name=reads --rw=read
	merged bio_backmerge 100 "$profile, reads"

	# A plug's request begins where a waiting one ends: neither of its bios was compared with it.
	replay insertion 3 512 640 768 0 128 256 8 4 520 136 132 648 264 260 776
	merged rq_merge 3 "$profile, insertion"
	# The larger request moves in front of one that it covers, and the last bio must find it there.
	replay moved 1 512 640 0 64 72 60+12 200 204 56
	merged bio_frontmerge 2 "$profile, moved"
	# A dispatch sorted the requests of one plug before any lookup for a merge.
	replay sorted 12 0 12 24 36 48 60 72 84 96 108 120 132 16 28 40 52 64 76 88 100 112 124 136 4
	merged bio_backmerge 9 "$profile, sorted"

	# Neighbours of different ranks stay apart: one rank writes every other 4 KiB, the other rank the gaps.
	run --rw=write:4k --verify=crc32c --name=even --prioclass=1 --name=odd --prioclass=2 --offset=4k
	[ "$(count bio_backmerge)$(count bio_frontmerge)$(count rq_merge)" = 000 ] ||
		fail "$profile: different ranks merged: $(grep -m 3 merge $tracing/trace)"

	# nomerges is obeyed.
	echo 2 >"$Q/nomerges"
	run --name=nomerges --rw=write --verify=crc32c
	[ "$(count bio_backmerge)" = 0 ] || fail "$profile: merged in spite of nomerges"
	echo 0 >/sys/kernel/config/simdisk/d0/power
	rmdir /sys/kernel/config/simdisk/d0
done
