# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: sluice-carry
# stack
# cpus: 2
# Below LUKS, LVM and RAID 1 an I/O has the priority of its process while sluice-carry is loaded, whatever thread queues it there.
# Without it Linux 6.1 loses that of what dm-crypt writes. It comes and goes under load.
. ./lib.sh
. ./stack.sh

# came COMMAND…: the priorities with which a command's data comes to the first disk, as "write rt/2" and so on.
came() {
	watch /tmp/csv --csv -d /dev/simdisk-d0
	"$@" >/tmp/log 2>&1 || fail "$(cat /tmp/log)"
	end_watch
	awk -F, '$8 == "q2c" && $4 != "flush" { print $4, $5 "/" $6 }' /tmp/csv | sort -u | tr '\n' ' ' | sed 's/ $//'
}

# direct CLASS LEVEL RW: some direct I/O.
direct() {
	fio --name=x --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=4 --bs=64k --size=1m --rw="$3" --prioclass="$1" \
		--prio="$2" --output=/dev/null
}

# cached CLASS LEVEL: some data that the process itself writes from the page cache.
cached() {
	ionice -c "$1" -n "$2" dd if=/dev/zero of="$DEV" bs=64k count=16 conv=fsync,notrunc
}

# expect WHAT WANTED COMMAND…: a command's data comes with this priority and no other.
expect() {
	_what=$1
	_wanted=$2
	shift 2
	_found=$(came "$@")
	[ "$_found" = "$_wanted" ] || fail "$_what: it came as \"$_found\", not as \"$_wanted\": $*"
}

# carried WHAT: every kind of I/O keeps its priority.
carried() {
	expect "$1" "write idle/0" direct 3 0 write
	expect "$1" "write rt/2" direct 1 2 write
	expect "$1" "write be/6" cached 2 6
	expect "$1" "write rt/2" cached 1 2
}

# lost WHAT: dm-crypt writes without a priority, where the kernel doesn't keep it.
lost() {
	case $(uname -r) in
	6.1.*)
		expect "$1" "write none/0" direct 1 2 write
		expect "$1" "write none/0" cached 1 2
		;;
	*) carried "$1" ;;
	esac
}

DISK=d1 disk ssd
disk ssd
scheduler mq-deadline
encrypted luks
lost "LUKS, before"

# Without ftrace it isn't loaded, and says why. 7.x can't turn ftrace off any more.
case $(uname -r) in
7.*) ;;
*)
	sysctl -qw kernel.ftrace_enabled=0
	! insmod /job/sluice-carry.ko 2>/dev/null || fail "it is loaded while ftrace is off"
	dmesg | grep -q "sluice-carry: .* can't be hooked .* next: sysctl kernel.ftrace_enabled=1" ||
		fail "it doesn't say why: $(dmesg | tail -3)"
	sysctl -qw kernel.ftrace_enabled=1
	lost "LUKS, after a refusal"
	;;
esac

load sluice-carry
carried LUKS
expect LUKS "read be/6" direct 2 6 read
volume volume
carried "LVM on LUKS"
dmsetup remove volume
DEV=/dev/$(dmsetup info -c --noheadings -o blkdevname luks)

# It comes and goes under load: nothing is lost.
fio --name=x --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=16 --bs=4k --size=8m --rw=randwrite --verify=crc32c \
	--verify_backlog=64 --verify_fatal=1 --time_based=1 --runtime=6000 --trigger-file=/tmp/enough --output=/out/fio &
load=$!
for _ in $(seq 50); do
	rmmod sluice-carry
	insmod /job/sluice-carry.ko
done
: >/tmp/enough
wait $load || fail "$(cat /out/fio)"
rmmod sluice-carry
lost "LUKS, after"
dmsetup remove luks

load sluice-carry
array raid1 /dev/simdisk-d0 /dev/simdisk-d1
# The first to open it looks for partitions.
dd if="$DEV" of=/dev/null count=1 status=none
carried "RAID 1"
