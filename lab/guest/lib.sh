# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2034  # DEV and Q are for the script that reads this
# What a job's script can use: . ./lib.sh

# End the job: it failed.
fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# End the job: it can't be done here, for a reason.
skip() {
	echo "$*" >/out/skip
	exit 0
}

# load NAME: load a module that came with the job, or one of the kernel's own.
load() {
	if [ -d "/sys/module/$(echo "$1" | tr - _)" ]; then
		return 0
	elif [ -e "/job/$1.ko" ]; then
		insmod "/job/$1.ko"
	else
		modprobe "$1"
	fi
}

# disk PROFILE [PARAMETER=VALUE…]: power a simulated disk up. A second one: DISK=d1 disk …
# Sets DEV (its device) and Q (its queue in sysfs).
disk() {
	load simdisk
	_disk=${DISK:-d0}
	_config=/sys/kernel/config/simdisk/$_disk
	mkdir "$_config"
	echo "$1" >"$_config/profile"
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
	*) load "$1" ;;
	esac
	echo "$1" >"$Q/scheduler" || fail "the kernel refuses scheduler $1"
	grep -qF "[$1]" "$Q/scheduler" || fail "scheduler is $(cat "$Q/scheduler"), not $1"
}

# What a kernel says when something is wrong.
TROUBLE='WARNING|BUG|Oops|lockdep|possible recursive|inconsistent lock|stall|blocked for more|use-after-free|refcount_t|corruption|general protection|Call Trace|I/O error'

# expect_dmesg_clean [PATTERN]: fail if the kernel complained, but for lines that match PATTERN.
expect_dmesg_clean() {
	dmesg | grep -E "$TROUBLE" | grep -vE "${1:-^\$}" >/tmp/trouble || return 0
	cat /tmp/trouble >&2
	fail "the kernel complained"
}
