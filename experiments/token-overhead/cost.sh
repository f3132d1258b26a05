# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# One process of a cgroup, whose rate is more than it can use, reads 4 KiB past the page cache, or makes clean pages dirty, none
# of which are written back.
large_files 1 1g
sysctl -qw vm.dirty_background_bytes=$((680 << 20)) vm.dirty_bytes=$((700 << 20))
weights
mkdir "$G/rated"
[ ! -e "$G/rated/io.sluice.rate" ] || echo 8000000000 >"$G/rated/io.sluice.rate"

measure() {
	# shellcheck disable=SC2086
	as rated fio --name=load --filename=/tmp/mnt/f0 --ioengine=psync --bs=4k --randseed="$SEED" --norandommap=1 \
		--runtime="$RUNTIME" --lat_percentiles=1 --clat_percentiles=1 --output-format=json+ --output=/out/fio.json $LOAD
}

watched measure
# Shows that a rate was accounted for, and the tokens that were left.
buckets=/sys/kernel/debug/block/${DEV#/dev/}/sched/buckets
[ ! -e "$buckets" ] || awk -v cgroup="$(stat -c %i "$G/rated")" '$1 == cgroup {
	printf "tokens %s\ncharged %s\n", $3, $4
}' "$buckets" >/out/readings
