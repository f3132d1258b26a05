# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# debug
# Each kind of call stops at its gate before it has done anything, is visible with its reason, and proceeds when it is released.
# Calls of other kinds pass. At an open gate the policy is not asked.
. ./lib.sh

# held KIND DONE COMMAND…: the command is held once; the condition DONE holds after its release and not before.
held() {
	kind=$1 condition=$2
	shift 2
	before=$(written)
	hold "$kind"
	"$@" >/tmp/log 2>&1 &
	wait_held 1 "$kind"
	grep -q "^simdisk-d0 $kind pid=.* comm=.* ms=[0-9]* reason=hold\$" /sys/kernel/debug/split/held ||
		fail "$kind is shown as $(cat /sys/kernel/debug/split/held)"
	if eval "$condition"; then
		fail "$* is done though it is held"
	fi
	hold
	wait $! || fail "$* fails when it is let go: $(cat /tmp/log)"
	wait_held 0
	eval "$condition" || fail "$* isn't done after it was let go"
	times=$((times + 1))
}

# passes KIND COMMAND…: the command is not held by the gate of KIND.
passes() {
	hold "$1"
	shift
	timeout 5 "$@" || fail "$* doesn't pass"
	hold
}

# written: the number of sectors that were written to the disk.
written() {
	awk '{ print $7 }' /sys/block/simdisk-d0/stat
}

# size FILE BYTES: the file has this size.
size() {
	[ "$(stat -c %s "$1")" = "$2" ]
}

# durable: sectors were written to the disk since the call began.
durable() {
	[ "$(written)" -gt "$before" ]
}

# put BLOCK OPTION…: write one block of the file.
put() {
	block=$1
	shift
	dd if=/dev/zero of=file bs=4k count=1 seek="$block" conv=notrunc status=none "$@"
}

disk ssd
scheduler split-noop
file_system
cd /tmp/mnt || exit
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
times=0
: >file
: >sent
dd if=/dev/zero of=/tmp/source bs=4k count=1 status=none

held write "size file 4096" put 0
held write "size file 8192" put 1 oflag=direct
held write "size file 12288" put 0 oflag=append
held write "size file 16384" xfs_io -c "pwrite -V 1 12288 4096" file
held write "size sent 4096" xfs_io -c "sendfile -i /tmp/source 0 4096" sent

sync
put 0
held fsync durable xfs_io -c fsync file
put 0
held fsync durable xfs_io -c fdatasync file
held fsync durable xfs_io -c "mmap 0 4096" -c "mwrite 0 4096" -c "msync -s 0 4096" file
mkdir made
held fsync durable sync made
held fsync durable put 0 oflag=sync
held sync "[ -e /tmp/synced ]" sh -c "sync; : >/tmp/synced"
held sync "[ -e /tmp/synced-one ]" sh -c "sync -f .; : >/tmp/synced-one"

held creat "[ -e new ]" touch new
held creat "[ -e hard ]" ln file hard
held creat "[ -L soft ]" ln -s file soft
held creat "[ -p pipe ]" mknod pipe p
held creat "size file 0" sh -c ": >file"
held mkdir "[ -d folder ]" mkdir folder
held rename "[ -e newer ]" mv new newer
held unlink "[ ! -e newer ]" rm newer
held unlink "[ ! -e folder ]" rmdir folder
held truncate "size file 5000" perl -e "truncate('file', 5000) or die"
held change "[ -x file ]" chmod +x file
held change "[ file -ot /tmp/source ]" touch -d 2001-01-01 file
# shellcheck disable=SC2016  # when it is evaluated
held change '[ "$(stat -c %g file)" = 1 ]' perl -e 'open(F, "+<", "file") or die; chown(-1, 1, \*F) or die'
held change "size file 36864" xfs_io -c "falloc 32768 4096" file

passes write touch other
passes write rm other
passes creat xfs_io -c 'pwrite 0 4096' file
passes mkdir touch other
passes fsync sync -f .
passes sync xfs_io -c fsync file

# A durable write is one call: it isn't asked about again for its fsync.
hold write fsync
put 0 oflag=sync &
wait_held 1 write
kinds fsync >"$Q/iosched/hold"
wait $! || fail "a durable write fails"
times=$((times + 1))
hold

# A file system on another device is not held by this device's policy.
hold write creat fsync
dd if=/dev/zero of=/root/elsewhere bs=4k count=1 conv=fsync status=none
hold
grep -qx "simdisk-d0 split-noop held=0 let_go=$times dropped=0 state=attached closed=" /sys/kernel/debug/split/devices ||
	fail "of $times: $(cat /sys/kernel/debug/split/devices)"
cd /
umount /tmp/mnt
scheduler none
[ ! -s /sys/kernel/debug/split/devices ] || fail "still there: $(cat /sys/kernel/debug/split/devices)"
