# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# each
# debug
# Each writer is charged what it has caused, whichever way it writes, and nothing is charged without a cause; so for the log.
. ./lib.sh

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

weights
disk "${PROFILE-ssd}"
scheduler split-noop
mkfs.ext4 -q -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 256m
mkdir /tmp/mnt
mount -o "${OPTIONS-defaults}" "$DEV" /tmp/mnt
[ -e $G/io.sluice.weight ] && fail "the root has a weight"

# Each way of writing.
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
expect_charged left data $((3 << 19))
expect_charged right data $((3 << 19))
expect_charged nobody data 0

# Two processes that commit together are charged in proportion to their charges alone.
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

# together NAME…: processes that append beside the others; another process makes the commits.
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
together many0
together few0
together many1 few1
share() {
	awk -v a="$(charged "$1" log)" -v b="$(charged "$2" log)" 'BEGIN { if (!(a + b)) exit 1; print a / (a + b) }' ||
		fail "$1 and $2 are charged nothing for the log"
}
alone=$(share many0 few0)
shared=$(share many1 few1)
echo "alone $alone, together $shared: $(charged many0 log) $(charged few0 log) $(charged many1 log) $(charged few1 log)"
awk -v a="$alone" -v s="$shared" 'BEGIN { exit !(s - a <= 0.05 && a - s <= 0.05) }' ||
	fail "many files' part of the log is $shared, alone it is $alone"

# Nearly everything has a cause.
cat /sys/kernel/debug/split/ledger >/out/ledger
other=$(($(charged nobody log) + $(charged nobody metadata)))
all=$(($(charged total log) + $(charged total metadata)))
echo "nobody's: $other of $all bytes of log and metadata"
[ $((other * 50)) -le $all ] || fail "nobody is charged $other of $all bytes of log and metadata"
umount /tmp/mnt
expect_dmesg_clean
