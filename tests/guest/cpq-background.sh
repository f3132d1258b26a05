# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# kernels: 6.12
# On a disk that seeks, a reader beside a process that writes through the page cache: the reader gets hardly any reads until the
# writer is background. Then it gets most of its reads alone, while the writer continues.
. ./lib.sh

cgroups=/tmp/cgroups

# side NAME SECONDS OPTION…: run fio for SECONDS, with its report in /tmp/NAME.
side() {
	name=$1 seconds=$2
	shift 2
	fio --name="$name" --filename="$DEV" --invalidate=0 --time_based --runtime="$seconds" --output="/tmp/$name" \
		--output-format=terse "$@" || fail "fio: $(cat "/tmp/$name")"
}

reader() {
	side reader 8 --direct=1 --size=1g --rw=randread --bs=4k
	reads=$(cut -d ';' -f 8 /tmp/reader)
}

# beside SCHEDULER BACKGROUND: the reader's I/Os, and the writer's MB/s while the reader runs.
beside() {
	scheduler "$1"
	[ -z "$2" ] || echo "$2" >"$Q/iosched/background"
	(
		echo 0 >$cgroups/writer/cgroup.procs
		side writer 12 --offset=100g --size=256m --rw=write --bs=64k
	) &
	writer=$!
	sleep 3
	before=$(awk '{ print $7 }' "/sys/block/${DEV#/dev/}/stat")
	reader
	written=$((($(awk '{ print $7 }' "/sys/block/${DEV#/dev/}/stat") - before) / 2048 / 8))
	wait $writer || fail "the writer failed"
	echo "$1 $2: $reads reads/s, writer $written MB/s"
	sync
}

disk hdd data=none
mkdir $cgroups
mount -t cgroup2 none $cgroups
echo "+io +memory" >$cgroups/cgroup.subtree_control
mkdir $cgroups/writer

scheduler cpq
reader
alone=$reads
echo "alone: $alone reads/s"
beside mq-deadline ""
[ $((reads * 10)) -lt "$alone" ] || fail "the writer doesn't hurt: $reads reads/s of $alone"
beside cpq /writer
[ $((reads * 2)) -gt "$alone" ] || fail "$reads reads/s of $alone beside the background"
[ "$written" -ge 5 ] || fail "the background writes $written MB/s"
scheduler none
rmdir $cgroups/writer
umount $cgroups
