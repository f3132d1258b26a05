# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop afq split-token split-deadline sluice
# stack
# cpus: 2
# race: too
# debug
# full
# limit: 3600
# Under load the tables of a stack are loaded anew, a mirror fails and comes back, and the policies below are changed and unloaded.
# Nothing is lost, held or leaked, and what comes back has causes again.
. ./lib.sh
. ./stack.sh

# Other kernels than the default one have a tenth of these. CPUs that race, and the kernels that watch locks and data races, take
# many times as long.
part=10
case $(uname -r) in
*debug* | *kcsan*) part=20 ;;
6.12.*) [ -n "${RACE-}" ] || part=1 ;;
esac
RELOADS=$((1000 / part))
FAILURES=$((100 / part))
UNLOADS=$((100 / part))

# load_on: jobs that verify what they write, until /tmp/trigger is there.
load_on() {
	rm -f /tmp/trigger
	fio --thread --time_based --runtime=100000 --trigger-file=/tmp/trigger --output=/out/fio --size=2m --bsrange=4k-64k \
		--rw=randwrite --verify=crc32c --verify_fatal=1 --verify_backlog=32 --directory=/tmp/mnt --thinktime=1ms \
		--name=buffered --fsync=8 --name=mapped --ioengine=mmap --name=direct --direct=1 --ioengine=libaio --iodepth=8 &
	LOAD=$!
}

load_off() {
	kill -0 $LOAD || fail "the load ended: $(cat /out/fio)"
	touch /tmp/trigger
	wait $LOAD || fail "what was written is not there: $(cat /out/fio)"
	grep -q READ: /out/fio || fail "nothing was read back"
}

# going: requests end, and no call is held for ever.
going() {
	before=$(awk '{ print $5 }' /sys/block/simdisk-d0/stat)
	for _ in $(seq 600); do
		kill -0 $LOAD || fail "the load ended: $(cat /out/fio)"
		[ "$(awk '{ print $5 }' /sys/block/simdisk-d0/stat)" = "$before" ] || return 0
		sleep 0.1
	done
	fail "all stands still: $(cat /sys/kernel/debug/split/held)"
}

# next_policy DISK…: one policy after another; the former one's module goes.
policies="split-noop afq split-token split-deadline sluice"
next_policy() {
	for disk; do
		Q=/sys/block/$disk/queue scheduler "${policies%% *}"
	done
	policies="${policies#* } ${policies%% *}"
	[ -z "${former-}" ] || rmmod "$former"
	former=${policies##* }
}

# ledger_goes: a new cause is charged for what it writes, on each of these disks.
ledger_goes() {
	causes=$((${causes-0} + 1))
	as cause$causes dd if=/dev/zero of=/tmp/mnt/cause bs=64k count=4 conv=fsync,notrunc status=none
	for disk; do
		grep "^$disk " /sys/kernel/debug/split/ledger | grep -q "cgroup=$(stat -c %i $G/cause$causes) .* data=262144 " ||
			fail "$disk: cause$causes isn't charged: $(cat /sys/kernel/debug/split/stacks /sys/kernel/debug/split/ledger)"
	done
	rmdir $G/cause$causes
}

# come_back DISK: it is a mirror again, by HOT_ADD_DISK.
come_back() {
	perl -e 'my ($major, $minor) = split(/:/, $ARGV[0]); open(my $md, "+<", "/dev/md0") or die;
		ioctl($md, 0x928, $major << 8 | $minor) or die "md: $!"' "$(lsblk -dno MAJ:MIN "/dev/$1")"
}

weights
for disk in 1 0; do
	DISK=d$disk disk ssd
done

stack crypt-lvm
next_policy simdisk-d0
file_system
load_on
for round in $(seq "$RELOADS"); do
	for name in volume luks; do
		dmsetup table --showkeys $name | dmsetup reload $name
		dmsetup suspend $name
		dmsetup resume $name
	done
	[ $((round * UNLOADS / RELOADS)) = $(((round - 1) * UNLOADS / RELOADS)) ] || next_policy simdisk-d0
	[ $((round % 10)) != 0 ] || going
done
load_off
ledger_goes simdisk-d0
umount /tmp/mnt
dmsetup remove_all
Q=/sys/block/simdisk-d0/queue scheduler none
rmmod "$former"
former=

DEV=/dev/simdisk-d0
MEMBER_KIB=$((72 << 10)) stack raid1 # a mirror that comes back is copied in whole
md=/sys/block/md0/md
echo 1000000 >/proc/sys/dev/raid/speed_limit_min
next_policy simdisk-d0 simdisk-d1
mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 64m
mount "$DEV" /tmp/mnt
load_on
for round in $(seq "$FAILURES"); do
	echo faulty >$md/dev-simdisk-d1/state
	for _ in $(seq 1000); do
		echo remove 2>/dev/null >$md/dev-simdisk-d1/state || :
		[ -e $md/dev-simdisk-d1 ] || break
		sleep 0.01
	done
	[ ! -e $md/dev-simdisk-d1 ] || fail "the mirror can't be removed: $(cat /proc/mdstat $md/dev-simdisk-d1/state /sys/block/simdisk-d1/inflight)"
	going
	[ $((round % 5)) != 0 ] || ledger_goes simdisk-d0
	come_back simdisk-d1
	for _ in $(seq 600); do
		going
		[ "$(cat $md/degraded)" != 0 ] || break
		sleep 0.1
	done
	[ "$(cat $md/degraded)" = 0 ] || fail "the mirror doesn't come back: $(cat /proc/mdstat $md/sync_action $md/dev-simdisk-d1/*)"
	[ $((round % 5)) != 0 ] || ledger_goes simdisk-d0 simdisk-d1
	[ $((round * UNLOADS / FAILURES)) = $(((round - 1) * UNLOADS / FAILURES)) ] || next_policy simdisk-d0 simdisk-d1
done
load_off
umount /tmp/mnt
echo clear >$md/array_state
for disk in simdisk-d0 simdisk-d1; do
	Q=/sys/block/$disk/queue scheduler none
done
rmmod "$former" split
expect_dmesg_clean "md/raid1"
