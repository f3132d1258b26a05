# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# Section 7.1 of the CPQ paper: a database with 100 queries of 10 I/Os each beside a web server with 10 of 5, and an aggressor
# on the database's side. Each is a fio of its own, and so a thread group.

# tenant NAME: charge this shell and its children to that cgroup from now on; all cgroups have the same weight.
tenant() {
	mkdir -p "/sys/fs/cgroup/$1"
	for weight in io.sluice.weight io.bfq.weight; do
		[ ! -e "/sys/fs/cgroup/$1/$weight" ] || echo 100 >"/sys/fs/cgroup/$1/$weight"
	done
	echo 0 >"/sys/fs/cgroup/$1/cgroup.procs"
}

# application TENANT NAME THREADS DEPTH [FIO-OPTION…]
application() (
	[ -z "$CGROUPS" ] || tenant "$1"
	name=$2 threads=$3 depth=$4
	shift 4
	exec fio --name="$name" --filename="$DEVICE" --direct=1 --invalidate=0 --ioengine=libaio --rw=randread --bs=4k \
		--size=1024M --thread=1 --numjobs="$threads" --iodepth="$depth" --group_reporting=1 \
		--time_based=1 --runtime="$RUNTIME" --startdelay=500ms --randseed="$SEED" \
		--lat_percentiles=1 --clat_percentiles=1 \
		--log_hist_msec=500 --log_hist_coarseness=2 --per_job_logs=0 --write_hist_log="/out/$name" \
		--output-format=json+ --output="/out/fio-$name.json" "$@"
)

aggressor() {
	case $1 in
	fork) application database aggressor 100 10 --thread=0 ;;
	io-uring) application database aggressor 100 10 --ioengine=io_uring --force_async=1 ;;
	page-cache)
		application database aggressor 4 1 --direct=0 --ioengine=psync --rw=randwrite --offset=2G --size=256M
		;;
	*) fail "no aggressor called $1" ;;
	esac
}

measure() {
	application database database 100 10 &
	waited=$!
	if [ "$WEB" -gt 0 ]; then
		# It starts when the others are running, and ends before them: while it runs, they have requests too.
		application web web "$WEB" 5 --startdelay=1500ms --runtime=$((RUNTIME - 2)) &
		waited="$waited $!"
	fi
	if [ -n "$AGGRESSOR" ]; then
		aggressor "$AGGRESSOR" &
		waited="$waited $!"
	fi
	for process in $waited; do
		wait "$process"
	done
}

[ -z "$CGROUPS" ] || echo +io +memory >/sys/fs/cgroup/cgroup.subtree_control
[ -z "$UNFAIR" ] || echo 100 >"$Q/iosched/max_tgroup_io_ratio"
# Writes must reach the disk during the measurement.
sysctl -qw vm.dirty_background_bytes=1048576
watched measure
