# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# stack
# each
# debug
# Below each stack of the lab the writers of a file system are charged as they are without one: what each has caused, whichever way
# it writes, and nearly all of the log.
. ./lib.sh
. ./stack.sh

# put NAME MEGABYTES [OPTION…]: write a file of that name.
put() {
	who=$1 count=$2
	shift 2
	as "$who" dd if=/dev/zero of="/tmp/mnt/$who" bs=1M count="$count" status=none conv=notrunc "$@"
}

# job NAME OPTION…: write a megabyte with fio.
job() {
	who=$1
	shift
	as "$who" fio --name="$who" --filename="/tmp/mnt/$who" --size=1m --bs=4k --rw=write --fallocate=none --output=/tmp/fio "$@" ||
		fail "$who: $(cat /tmp/fio)"
}

# charged NAME USE: the same as lib.sh's, of the stack's disks. What is dirty is to be alike on all of them, and what is written on
# MIRRORS, if they are all that there are; else it is on any of them.
charged() {
	case $1 in
	nobody) whose="process=0" ;;
	layers) whose="layers=0" ;;
	total) whose="[a-z]*=[0-9]*" ;;
	*) whose="cgroup=$(stat -c %i "$G/$1")" ;;
	esac
	for disk in $disks; do
		grep "^$disk .* $whose " /sys/kernel/debug/split/ledger | sed "s/.* $2=\([0-9]*\).*/\1/" |
			awk '{ sum += $1 } END { printf "%d\n", sum }'
	done >/tmp/charged
	case $2:$disks in
	dirty:* | data:simdisk-d0 | "data:simdisk-d0 simdisk-d1") sort -u /tmp/charged ;;
	read:*) awk '{ sum += $1 } END { print sum }' /tmp/charged ;;
	*) awk -v mirrors=$mirrors '{ sum += $1 } END { print sum / mirrors }' /tmp/charged ;;
	esac
}

# ways: each way of writing, and a read.
ways() {
	dd if=/dev/zero of=/tmp/mnt/mapped bs=1M count=1 conv=fsync status=none
	put buffered 4
	put again 2
	put again 2
	put gone 2
	rm /tmp/mnt/gone
	put short 2
	: >/tmp/mnt/short
	expect_charged buffered dirty $((4 << 20))
	expect_charged again dirty $((2 << 20))
	expect_charged gone dirty 0
	expect_charged short dirty 0
	job mapped --ioengine=mmap
	job vectors --ioengine=pvsync2
	job spliced --ioengine=splice
	job ring --ioengine=io_uring --iodepth=8
	job ring-direct --ioengine=io_uring --iodepth=8 --direct=1
	job direct --ioengine=libaio --iodepth=8 --direct=1
	job durable --sync=1
	job appended --fsync=1
	put left 2
	ln /tmp/mnt/left /tmp/mnt/right
	put right 2 seek=1
	sync
	expect_charged buffered data $((4 << 20))
	expect_charged again data $((2 << 20))
	expect_charged gone data 0
	expect_charged short data 0
	for one in mapped vectors spliced ring ring-direct direct durable appended; do
		expect_charged $one data $((1 << 20))
		expect_charged $one dirty 0
	done
	# A bio of both becomes several requests, and each is split to the byte.
	for one in left right; do
		off=$(($(charged $one data) - (3 << 19)))
		[ ${off#-} -le 64 ] || fail "$one is charged $off bytes more than $((3 << 19))"
	done
	expect_charged nobody data 0
	echo 3 >/proc/sys/vm/drop_caches
	as reader dd if=/tmp/mnt/buffered of=/dev/null bs=1M status=none
	expect_charged reader read $((4 << 20))
}

load sluice-cause
! insmod /job/split.ko layers_weight=0 2>/dev/null || fail "a weight of 0 isn't refused"
dmesg | grep -q "layers_weight is from 1 to 1000, not 0; next:" || fail "nothing says why a weight of 0 is refused"
weights
for disk in 3 2 1 0; do
	DISK=d$disk disk ssd
done
for stack in ${STACKS:-lvm crypt crypt-lvm thin raid1 raid10}; do
	disks=simdisk-d0 mirrors=2
	case $stack in
	raid1) disks="simdisk-d0 simdisk-d1" ;;
	raid10) disks="simdisk-d0 simdisk-d1 simdisk-d2 simdisk-d3" ;;
	*) mirrors=1 ;;
	esac
	DEV=/dev/simdisk-d0
	stack "$stack"
	for disk in $disks; do
		Q=/sys/block/$disk/queue scheduler split-noop
	done
	file_system
	ways
	[ "$stack" != thin ] || [ "$(charged layers data)" -gt 0 ] || fail "what thin writes for itself isn't charged to layers"
	cat /sys/kernel/debug/split/stacks
	other=$(($(charged nobody log) + $(charged nobody metadata)))
	all=$(($(charged total log) + $(charged total metadata)))
	echo "$stack: nobody's: $other of $all bytes of log and metadata"
	[ $((other * 50)) -le $all ] || fail "$stack: nobody is charged $other of $all bytes: $(cat /sys/kernel/debug/split/ledger)"
	umount /tmp/mnt
	[ ! -e /sys/block/md0/md ] || echo clear >/sys/block/md0/md/array_state
	dmsetup remove_all
	cat /sys/kernel/debug/split/stacks
	for disk in $disks; do
		Q=/sys/block/$disk/queue scheduler none
	done
	for one in buffered again gone short mapped vectors spliced ring ring-direct direct durable appended left right reader; do
		rmdir $G/$one
	done
done
expect_dmesg_clean
