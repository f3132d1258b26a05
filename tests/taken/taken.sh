# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# A hook whose place is taken: the policy is refused, with the reason, and none of the other hooks stays in.
. ./lib.sh

# hooks: functions of the kernel that another module may change.
hooks() {
	grep -cE '^(ext4_file_write_iter|ext4_sync_file|ext4_sync_fs|mnt_want_write) .* I ' \
		/sys/kernel/tracing/enabled_functions || true
}

# refused FUNCTION: the policy is, since that function is taken.
refused() {
	dmesg -C
	if echo split-noop | dd of="$Q/scheduler" 2>/tmp/said; then
		fail "the policy is accepted though $1 is taken"
	fi
	grep -q "Device or resource busy" /tmp/said || fail "it is refused with $(cat /tmp/said)"
	dmesg | grep -q "split: $1 is changed by a livepatch or a kprobe already, or ftrace is off (error -16); next: " ||
		fail "the log says $(dmesg)"
	[ ! -s /sys/kernel/debug/split/devices ] || fail "it is attached: $(cat /sys/kernel/debug/split/devices)"
	timeout 5 dd if="$DEV" of=/dev/null bs=4k count=1 iflag=direct status=none || fail "the disk stands still"
}

disk ssd
load split
load split-noop
for function in ext4_file_write_iter ext4_sync_file ext4_sync_fs mnt_want_write; do
	insmod ./taken.ko function=$function
	refused $function
	sleep 2
	[ "$(hooks)" = 1 ] || fail "$(hooks) hooks are in beside $function"
	rmmod taken
	scheduler split-noop
	[ "$(hooks)" = 4 ] || fail "$(hooks) hooks are in after $function"
	if insmod ./taken.ko function=$function 2>/tmp/said; then
		fail "$function is given to two"
	fi
	scheduler none
	rmmod split-noop
	rmmod split
	load split-noop
done

# ftrace can't be switched off under the hooks, nor the hooks put in while it is off.
sysctl -qw kernel.ftrace_enabled=0
refused bio_clone_blkg_association
sysctl -qw kernel.ftrace_enabled=1
scheduler split-noop
if sysctl -qw kernel.ftrace_enabled=0 2>/dev/null; then
	fail "ftrace was switched off"
fi
scheduler none
