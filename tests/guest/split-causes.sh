# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# stack
# each
# debug
# Each writer is charged what it has caused, whichever way it writes, on a plain disk and below each of the lab's stacks. Nothing
# is charged without a cause. Processes that commit together share the charges for the log.
. ./lib.sh
. ./stack.sh

# put NAME MEGABYTES [OPTION…]: write a file of that name.
put() {
	writer=$1 count=$2
	shift 2
	as "$writer" dd if=/dev/zero of="/tmp/mnt/$writer" bs=1M count="$count" status=none conv=notrunc "$@"
}

# job NAME OPTION…: write a megabyte with fio.
job() {
	writer=$1
	shift
	as "$writer" fio --name="$writer" --filename="/tmp/mnt/$writer" --size=1m --bs=4k --rw=write --fallocate=none --output=/tmp/fio "$@" ||
		fail "$writer: $(cat /tmp/fio)"
}

# charged NAME USE: the same as lib.sh's, of DISKS. What is dirty is to be alike on all of them, and what is written on
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
	for one in left right; do
		off=$(($(charged $one data) - (3 << 19)))
		[ ${off#-} -le $rounded ] || fail "$one is charged $off bytes more than $((3 << 19))"
	done
	expect_charged nobody data 0
	echo 3 >/proc/sys/vm/drop_caches
	as reader dd if=/tmp/mnt/buffered of=/dev/null bs=1M status=none
	expect_charged reader read $((4 << 20))
}

cat >/tmp/append.pl <<'P'
my ($folder, $files, $seconds) = @ARGV;
mkdir $folder;
open(my $one, ">>", "$folder/one") or die;
for my $i (1 .. $seconds * 50) {
	syswrite($one, "x" x 4096) == 4096 or die;
	for my $j (1 .. $files) {
		open(my $new, ">", "$folder/$i-$j") or die;
		syswrite($new, "x" x 100) == 100 or die;
	}
	select(undef, undef, undef, 0.02);
}
P

# together NAME…: processes that append beside one another; another process makes the commits.
together() {
	for one; do
		files=0
		[ "${one#many}" = "$one" ] || files=2
		as "$one" perl /tmp/append.pl "/tmp/mnt/$one" $files 6 &
		eval "pid_$one=$!"
	done
	for _ in $(seq 24); do
		sleep 0.25
		sync -f /tmp/mnt
	done
	for one; do
		eval "wait \$pid_$one" || fail "$one can't append"
	done
	sync -f /tmp/mnt
}

# share NAME OTHER: the first one's part of what both are charged for the log.
share() {
	awk -v a="$(charged "$1" log)" -v b="$(charged "$2" log)" 'BEGIN { if (!(a + b)) exit 1; print a / (a + b) }' ||
		fail "$1 and $2 are charged nothing for the log"
}

# commits: two processes that commit together are charged in proportion to their charges alone.
commits() {
	together many0
	together few0
	together many1 few1
	alone=$(share many0 few0)
	shared=$(share many1 few1)
	echo "alone $alone, together $shared: $(charged many0 log) $(charged few0 log) $(charged many1 log) $(charged few1 log)"
	awk -v a="$alone" -v s="$shared" 'BEGIN { exit !(s - a <= 0.05 && a - s <= 0.05) }' ||
		fail "many files' part of the log is $shared, alone it is $alone"
}

load sluice-cause
! insmod /job/split.ko layers_weight=0 2>/dev/null || fail "a weight of 0 isn't refused"
dmesg | grep -q "layers_weight is from 1 to 1000, not 0; next:" || fail "nothing says why a weight of 0 is refused"
weights
[ -e $G/io.sluice.weight ] && fail "the root has a weight"
for disk in 3 2 1 0; do
	DISK=d$disk disk ssd
done
mkdir -p /tmp/mnt
for stack in ${STACKS:-none lvm crypt crypt-lvm thin raid1 raid10}; do
	# A bio of two writers becomes several requests below a stack, and each one's parts are rounded.
	disks=simdisk-d0 mirrors=2 rounded=64
	case $stack in
	none) mirrors=1 rounded=0 ;;
	raid1) disks="simdisk-d0 simdisk-d1" ;;
	raid10) disks="simdisk-d0 simdisk-d1 simdisk-d2 simdisk-d3" ;;
	*) mirrors=1 ;;
	esac
	# ext4's folios have many pages there, and the causes of a folio have equal parts.
	case $(uname -r) in 7.*) rounded=$((1 << 19)) ;; esac
	DEV=/dev/simdisk-d0
	[ "$stack" = none ] || stack "$stack"
	case $stack in
	none | crypt*) block=4096 ;;
	*) block=1024 ;;
	esac
	for disk in $disks; do
		Q=/sys/block/$disk/queue scheduler split-noop
	done
	mkfs.ext4 -q -b $block -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 256m
	mount "$DEV" /tmp/mnt
	ways
	[ "$stack" != none ] || commits
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
	rmdir $G/*/
done
expect_dmesg_clean
