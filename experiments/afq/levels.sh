# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# A process, or several, of each best-effort level. Each level has a file of its own, and no process reaches the end of it.
large_files 8 2g

for level in 0 1 2 3 4 5 6 7; do
	printf '[p%s]\nnew_group=1\nfilename=/tmp/mnt/f%s\nprioclass=2\nprio=%s\n' $level $level $level
done >/tmp/levels.fio

# levels SECONDS OPTION…
levels() {
	seconds=$1
	shift
	# shellcheck disable=SC2086
	fio --size=1g --offset="${SEED}m" --ioengine=psync --zero_buffers=1 --time_based=1 --runtime="$seconds" \
		--numjobs="$PROCESSES" --group_reporting=1 --randseed="$SEED" --lat_percentiles=1 --clat_percentiles=1 \
		"$@" $LOAD /tmp/levels.fio
}

# No ramp_time: for fio it ends with a process's first I/O after it. The process that waits longest would be measured longest,
# and at last alone.
[ "$WARM" = 0 ] || levels "$WARM" >/dev/null
watched levels "$RUNTIME" --output-format=json+ --output=/out/fio.json
