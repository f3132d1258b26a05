# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# All six queues are reached, by class and by the cgroup that caused the I/O, even if another thread writes it back.
. ./lib.sh

cgroups=/tmp/cgroups

# served QUEUE
served() {
	awk -v queue="$1" '$1 == queue { print $5 }' "/sys/kernel/debug/block/${DEV#/dev/}/sched/state"
}

# reach QUEUE CGROUP COMMAND…: the command, run in the cgroup, has requests in that queue and in no other.
reach() {
	queue=$1 cgroup=$2
	shift 2
	scheduler none
	scheduler cpq
	printf '%s\n' "$listed" >"$Q/iosched/background"
	sh -euc 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh "$cgroups$cgroup" "$@"
	sync "$DEV"
	for other in rt-fore rt-back be-fore idle-fore be-back idle-back; do
		count=$(served $other)
		if [ $other = "$queue" ]; then
			[ "$count" -ge 8 ] || fail "$* in $cgroup: $other had $count requests"
		else
			[ "$count" = 0 ] || fail "$* in $cgroup: $other had $count requests, not $queue"
		fi
	done
}

# read_by CLASS QUEUE CGROUP
read_by() {
	reach "$2" "$3" ionice -c "$1" dd if="$DEV" of=/dev/null bs=4k count=8 iflag=direct status=none
}

mkdir $cgroups
mount -t cgroup2 none $cgroups
mkdir -p $cgroups/front $cgroups/batch/job
echo "+io +memory" >$cgroups/cgroup.subtree_control
echo "+io +memory" >$cgroups/batch/cgroup.subtree_control

disk nvme
listed=idle
read_by 1 rt-fore /front
read_by 2 be-fore /front
read_by 3 idle-back /front
read_by 2 be-fore /batch/job
listed='idle
/batch'
read_by 1 rt-back /batch/job
read_by 2 be-back /batch/job
read_by 3 idle-back /batch/job
read_by 3 idle-back /front
listed=/batch
read_by 3 idle-fore /front
read_by 3 idle-back /batch/job
listed=
read_by 3 idle-fore /batch/job

# Through the page cache of a file system that supports cgroups: the flusher writes back, and the cause is charged.
listed=/batch
mkfs.ext4 -q -O ^has_journal -E nodiscard,lazy_itable_init=0 "$DEV" 64m
mkdir /tmp/mnt
mount "$DEV" /tmp/mnt
echo 128 >"$Q/max_sectors_kb"
scheduler none
scheduler cpq
printf '%s\n' "$listed" >"$Q/iosched/background"
sh -euc 'echo $$ >"$1/cgroup.procs"; exec dd if=/dev/zero of=/tmp/mnt/caused bs=64k count=64 status=none' sh $cgroups/batch/job
echo 1 >/proc/sys/vm/dirty_expire_centisecs
echo 1 >/proc/sys/vm/dirty_writeback_centisecs
sleep 1
[ "$(served be-back)" -ge 32 ] || fail "written back for /batch/job: $(cat "/sys/kernel/debug/block/${DEV#/dev/}/sched/state")"
umount /tmp/mnt
