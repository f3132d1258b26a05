# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: nvme-wrr
# nvme: wrr=on,fetch_ns=100000,subsys=shared
# The disk of a drive that may have several controllers is not the controller's own one, which is hidden. sluice wrr refuses the
# controller while that disk is in use, and reads from it to probe.
. ./lib.sh
. ./nvme.sh

wrr() {
	python3 -B -m lab.host.cli wrr "$@"
}

PATH_Q=/sys/block/nvme0c0n1/queue
load nvme
present
[ -e $PATH_Q ] || fail "the disk is the controller's own"
wrr status | grep "$PCI, driver nvme, disks: nvme0n1$" || fail "$(wrr status)"
exec 9<$DEV
if wrr bind 2>/tmp/said; then
	fail "it is taken away in use"
fi
grep -q "in use: process $$ has $DEV open" /tmp/said || fail "$(cat /tmp/said)"
exec 9<&-

load nvme-wrr
wrr bind -c $DEV | grep "is with nvme-wrr, disks: nvme0n1" || fail "$(wrr status)"
echo mq-deadline >$PATH_Q/scheduler
wrr status | grep "scheduler of nvme0c0n1: mq-deadline, which orders" || fail "$(wrr status)"
wrr probe --seconds 1 | grep "nvme0 honours its weights" || fail "the probe found something else"
grep -qF '[mq-deadline]' $PATH_Q/scheduler || fail "the probe left $(cat $PATH_Q/scheduler)"
wrr unbind -c nvme0c0n1 | grep "is with nvme, disks: nvme0n1" || fail "$(wrr status)"
expect_dmesg_clean
