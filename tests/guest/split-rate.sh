# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-token
# A rate holds when all accounts are in use: for the tenant that uses them up, and for a cgroup whose first I/O comes then.
. ./lib.sh

RATE=2000000 SECONDS_EACH=5

in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$G/$1" "$@"
}

# keeps_rate CGROUP: direct reads there cost at most the rate and a twentieth more, and the saved burst.
keeps_rate() {
	in_group "$1" timeout -s INT $SECONDS_EACH dd if=/tmp/mnt/x of=/dev/null bs=64k iflag=direct 2>/tmp/said || true
	bytes=$(sed -n 's/^\([0-9]*\) bytes.*/\1/p' /tmp/said)
	echo "$1: $bytes bytes in $SECONDS_EACH s"
	[ "${bytes:-0}" -gt 0 ] || fail "$1 reads nothing: $(cat /tmp/said)"
	[ "$bytes" -le $((RATE * SECONDS_EACH * 21 / 20 + RATE / 10)) ] ||
		fail "$1 reads $bytes bytes in $SECONDS_EACH s: $(cat /sys/kernel/debug/block/simdisk-d0/sched/buckets)"
}

disk ssd
scheduler split-token
weights
file_system
dd if=/dev/zero of=/tmp/mnt/x bs=1M count=64 conv=fsync 2>/dev/null
# Dirty data stays dirty.
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
mkdir "$G/tenant" "$G/late"
echo 8589934592 >"$G/tenant/io.sluice.rate"
echo $RATE >"$G/late/io.sluice.rate"
echo +io >"$G/tenant/cgroup.subtree_control"
mkdir "$G/tenant/child" "$G/tenant/more"
# With each weight the cgroup has a new account; each account has a dirty page.
for child in child more; do
	perl -e 'my $child = shift; sub put { open(my $f, ">", $_[0]) or die "$_[0]: $!"; defined(syswrite($f, $_[1])) or die "$_[0]: $!" }
		put("$child/cgroup.procs", $$); open(my $page, ">", "/tmp/mnt/pages$$") or die;
		for (1 .. 600) { put("$child/io.sluice.weight", $_); sysseek($page, $_ * 4096, 0); syswrite($page, "x" x 4096) == 4096 or die }
		' "$G/tenant/$child"
done
[ "$(wc -l </sys/kernel/debug/split/accounts)" -ge 766 ] || fail "accounts are left: $(wc -l </sys/kernel/debug/split/accounts)"
echo $RATE >"$G/tenant/io.sluice.rate"
mkdir "$G/tenant/newest"
echo 700 >"$G/tenant/newest/io.sluice.weight"
keeps_rate tenant/newest
keeps_rate late
umount /tmp/mnt
scheduler none
rmmod split-token split
expect_dmesg_clean
