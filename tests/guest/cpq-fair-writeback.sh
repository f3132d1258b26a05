# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# Writeback is charged to the cgroup that made the pages dirty, with its weight or with 100, and not to the kernel thread that
# writes for all cgroups. Writeback of pages without a cgroup is charged to all such threads together.
. ./lib.sh

accounts=/sys/kernel/debug/block/simdisk-d0/sched/accounts
cgroups=/sys/fs/cgroup

# dirty CGROUP FILE: make pages dirty whose writeback queues bios that are split into many parts.
dirty() {
	sh -euc 'echo $$ >"$1/cgroup.procs"; exec dd if=/dev/zero of="$2" bs=64k count=256 status=none' sh "$cgroups$1" \
		"/tmp/mnt/$2"
}

# number CGROUP: the cgroup's number in its account.
number() {
	stat -c %i "$cgroups$1"
}

# written_back ACCOUNT…: all dirty pages are written; these accounts had 32 tags each at once, and no other cgroup had.
written_back() {
	: >/tmp/seen
	sync -f /tmp/mnt &
	while kill -0 $! 2>/dev/null; do
		cat $accounts >>/tmp/seen
	done
	for account in "$@"; do
		echo "$account"
	done | sort >/tmp/wanted
	awk '$1 == "cgroup" && /weight/ && substr($4, 6) + 0 >= 32 { print $1, $2, $3 }' /tmp/seen | sort -u >/tmp/found
	cmp -s /tmp/wanted /tmp/found || fail "not $*, but $(cat /tmp/found)"
}

disk emmc
echo "+io +memory" >$cgroups/cgroup.subtree_control
mkdir $cgroups/heavy $cgroups/light $cgroups/plain
scheduler cpq
mkfs.ext4 -q -O ^has_journal -E nodiscard,lazy_itable_init=0 "$DEV" 256m
mkdir /tmp/mnt
mount "$DEV" /tmp/mnt
echo 4 >"$Q/max_sectors_kb"
echo 128 >"$Q/nr_requests"
# Switch off the kernel's own throttle of writeback.
echo 0 >"$Q/wbt_lat_usec"
echo 0 >/proc/sys/vm/dirty_writeback_centisecs

dirty /plain plain
written_back "cgroup $(number /plain) weight=100"
# Every other page is written, so that each has a bio of its own.
sh -euc 'echo $$ >"$1/cgroup.procs"; exec fio --name=pages --filename=/tmp/mnt/plain --rw=write:4k --bs=4k --size=16m \
	--overwrite=1 --fallocate=none --end_fsync=0 --output=/out/fio' sh $cgroups/plain
written_back "cgroup $(number /plain) weight=100"
echo 300 >$cgroups/heavy/io.sluice.weight
echo 50 >$cgroups/light/io.sluice.weight
for name in heavy light; do
	dirty /$name $name
done
written_back "cgroup $(number /heavy) weight=300" "cgroup $(number /light) weight=50"
dirty "" root
written_back
grep -q "^kernel 0 weight=100 used=[3-9]." /tmp/seen || fail "the root's: $(sort -u /tmp/seen)"
umount /tmp/mnt
scheduler none
