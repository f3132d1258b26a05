# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2034  # DEV and Q are for the script that reads this
# Functions for the script of a job: . ./lib.sh

# End the job: it failed.
fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# End the job: it can't be done here, and the argument says why.
skip() {
	echo "$*" >/out/skip
	exit 0
}

G=/sys/fs/cgroup

# load NAME: load a module that came with the job, after those it needs, or one of the kernel's own.
load() {
	if [ -d "/sys/module/$(echo "$1" | tr - _)" ]; then
		return 0
	elif [ -e "/job/$1.ko" ]; then
		for _needed in $(modinfo -F depends "/job/$1.ko" | tr , ' '); do
			load "$_needed"
		done
		insmod "/job/$1.ko"
	else
		modprobe "$1" || fail "no module $1: a test in tests/guest that needs it says so in its head: # modules: $1"
	fi
}

# disk PROFILE [PARAMETER=VALUE…]: power a simulated disk up. A second disk: DISK=d1 disk … On CPUs that race, each CPU has a
# hardware queue. Sets DEV (its device) and Q (its queue in sysfs).
disk() {
	load simdisk
	_disk=${DISK:-d0}
	_config=/sys/kernel/config/simdisk/$_disk
	mkdir "$_config"
	echo "$1" >"$_config/profile"
	[ -z "${RACE-}" ] || nproc >"$_config/queues"
	shift
	for _setting; do
		echo "${_setting#*=}" >"$_config/${_setting%%=*}" || fail "simdisk refuses $_setting"
	done
	echo 1 >"$_config/power"
	DEV=/dev/simdisk-$_disk
	Q=/sys/block/simdisk-$_disk/queue
	[ -b "$DEV" ] || fail "no $DEV"
}

# scheduler NAME: use a scheduler on the disk, loading it if it is a module.
scheduler() {
	case $1 in
	none | mq-deadline) ;;
	kyber) load kyber-iosched ;;
	split-fifo) load split-noop ;;
	scs-token) load split-token ;;
	*) load "$1" ;;
	esac
	echo "$1" >"$Q/scheduler" || fail "the kernel refuses scheduler $1"
	grep -qF "[$1]" "$Q/scheduler" || fail "scheduler is $(cat "$Q/scheduler"), not $1"
}

# datasheet PROFILE: what I/O costs the disk is known from its datasheet, and not learned.
datasheet() {
	case $1 in
	ssd) echo "kind=flash read_mbps=250 write_mbps=70 flush_us=3000 read_iops=35000 write_iops=6600" ;;
	hdd) echo "kind=disk read_mbps=126 write_mbps=126 flush_us=2000 rpm=7200 seek_track_us=1000 seek_full_us=15800" ;;
	esac >"$Q/iosched/costs" || fail "the datasheet of $1 is refused"
}

# file_system [OPTION…]: an ext4 on the disk, mounted at /tmp/mnt.
file_system() {
	mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 256m
	mkdir -p /tmp/mnt
	mount "$@" "$DEV" /tmp/mnt
}

# large_files NUMBER SIZE [OPTION…]: an ext4 with its defaults on the disk, mounted at /tmp/mnt, with NUMBER files of SIZE: f0,
# f1 and so on. The file system counts their blocks as written; the disk has no data for them, and reads zeroes.
large_files() {
	_size=$2
	{
		cat /etc/mke2fs.conf
		printf '[fs_types]\n\tlarge = {\n\t\tmake_hugefiles = true\n\t\tzero_hugefiles = false\n'
		printf '\t\thugefiles_%s\n' "name = f" "digits = 1" "size = $_size"
		printf '\t\tnum_hugefiles = %s\n\t}\n' "$1"
	} >/tmp/mke2fs.conf
	shift 2
	MKE2FS_CONFIG=/tmp/mke2fs.conf mkfs.ext4 -q -T ext4,large -N 4096 -E nodiscard,lazy_itable_init=0 "$DEV" 24g
	mkdir -p /tmp/mnt
	mount "$@" "$DEV" /tmp/mnt
}

# kinds KIND…: the set of these kinds of calls, in the format of split-noop's knobs.
kinds() {
	_set=0
	for _kind; do
		case $_kind in
		write) _bit=1 ;;
		fsync) _bit=2 ;;
		sync) _bit=4 ;;
		creat) _bit=8 ;;
		mkdir) _bit=16 ;;
		unlink) _bit=32 ;;
		rename) _bit=64 ;;
		truncate) _bit=128 ;;
		change) _bit=256 ;;
		*) fail "no kind of call: $_kind" ;;
		esac
		_set=$((_set | _bit))
	done
	echo $_set
}

# hold [KIND…]: split-noop holds these kinds of calls, and releases all others.
hold() {
	_set=$(kinds "$@")
	echo "$_set" >"$Q/iosched/gates"
	echo "$_set" >"$Q/iosched/hold"
}

# wait_held NUMBER [KIND]: wait until exactly NUMBER calls are held.
wait_held() {
	for _ in $(seq 3000); do
		_held=$(grep -c "^simdisk-${_disk} ${2-}" /sys/kernel/debug/split/held) || true
		[ "$_held" != "$1" ] || return 0
		sleep 0.01
	done
	fail "held are $_held, not $1 ${2-}: $(cat /sys/kernel/debug/split/held)"
}

# weights: mount the cgroup hierarchy at $G, with weights.
weights() {
	mount -t cgroup2 none $G
	echo +io >$G/cgroup.subtree_control
}

# group NAME: a cgroup with an account of its own.
group() {
	mkdir "$G/$1"
	echo 100 >"$G/$1/io.sluice.weight"
}

# as NAME COMMAND…: run a command in a cgroup of its own.
as() {
	[ -d "$G/$1" ] || group "$1"
	sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$G/$1" "$@"
}

# charged NAME USE: bytes of a use that a cgroup was charged; the NAME nobody is process 0, total is the sum of all.
charged() {
	case $1 in
	nobody) whose="process=0" ;;
	total) whose="[a-z]*=[0-9]*" ;;
	*) whose="cgroup=$(stat -c %i "$G/$1")" ;;
	esac
	grep " $whose " /sys/kernel/debug/split/ledger | sed "s/.* $2=\([0-9]*\).*/\1/" |
		awk '{ sum += $1 } END { printf "%d\n", sum }'
}

# expect_charged NAME USE BYTES: the charge is exactly BYTES.
expect_charged() {
	[ "$(charged "$1" "$2")" = "$3" ] || fail "$1: $2 is $(charged "$1" "$2"), not $3: $(cat /sys/kernel/debug/split/ledger)"
}

# watch FILE OPTION…: start iolat with its output in FILE, and wait until it watches.
watch() {
	_out=$1
	shift
	: >/tmp/iolat.log
	./iolat "$@" >"$_out" 2>>/tmp/iolat.log &
	IOLAT=$!
	until grep -q watching /tmp/iolat.log; do
		kill -0 "$IOLAT" 2>/dev/null || fail "$(cat /tmp/iolat.log)"
		sleep 0.05
	done
}

# end_watch [STATUS]: end iolat; its exit status must be STATUS.
# shellcheck disable=SC2120
end_watch() {
	kill -INT "$IOLAT"
	_status=0
	wait "$IOLAT" || _status=$?
	[ "$_status" = "${1:-0}" ] || fail "iolat ends with $_status: $(cat /tmp/iolat.log)"
}

# watched COMMAND…: run a command; if WATCH has options for iolat, iolat runs beside it and writes /out/iolat.json.
watched() {
	# shellcheck disable=SC2086
	[ -z "${WATCH-}" ] || watch /out/iolat.json -d "$DEV" $WATCH
	"$@"
	[ -z "${WATCH-}" ] || end_watch
}

# Patterns of kernel messages that report an error.
TROUBLE='WARNING|BUG|Oops|lockdep|possible recursive|inconsistent lock|stall|blocked for more|use-after-free|refcount_t|corruption|general protection|Call Trace|I/O error'

# expect_dmesg_clean [PATTERN]: fail if the kernel complained, except in lines that match PATTERN.
expect_dmesg_clean() {
	dmesg | grep -E "$TROUBLE" | grep -vE "${1:-^\$}" >/tmp/trouble || return 0
	cat /tmp/trouble >&2
	fail "the kernel complained"
}

# loopback: make 127.0.0.1 reachable, by SIOCSIFFLAGS with IFF_UP, as there is no ip in the guest.
loopback() {
	perl -e 'use Socket; socket(S, AF_INET, SOCK_DGRAM, 0); my $lo = pack("a16 s x22", "lo", 1);
		ioctl(S, 0x8914, $lo) or die'
}
