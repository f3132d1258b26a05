# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Impossible requests are refused in one sentence that says what to type next.
. ./lib.sh

# refuses STATUS PATTERN COMMAND…
refuses() {
	status=$1 pattern=$2
	shift 2
	code=0
	timeout 10 "$@" >/tmp/out 2>/tmp/err || code=$?
	[ $code = "$status" ] || fail "$*: status $code, expected $status: $(cat /tmp/err)"
	[ ! -s /tmp/out ] || fail "$*: printed $(cat /tmp/out)"
	[ "$(wc -l </tmp/err)" = 1 ] || fail "$*: not one line: $(cat /tmp/err)"
	grep -qE "^iolat: .*($pattern).*; next: |^iolat: next: " /tmp/err || fail "$*: $(cat /tmp/err)"
}

disk ssd
refuses 2 "not a block device" ./iolat -d nothing
refuses 2 "not a block device" ./iolat -d /dev/null
refuses 2 "above 0" ./iolat 0
refuses 2 "above 0" ./iolat -- -1
refuses 2 "above 0" ./iolat 1x
refuses 2 "whole" ./iolat 1 1.5
refuses 2 "too many" ./iolat 1 2 3
refuses 2 "whole" ./iolat -p 1.5
refuses 2 "above 0" ./iolat -t x
refuses 2 "no option --tgid" ./iolat --tgid 1
refuses 2 "no operation" ./iolat --op fly
refuses 2 "no class" ./iolat --class high
refuses 2 "no grouping" ./iolat --by name
refuses 2 "not a cgroup" ./iolat -g /tmp
mkdir /sys/fs/cgroup/shop
refuses 2 "no io controller" ./iolat -g /sys/fs/cgroup/shop
echo +io >/sys/fs/cgroup/cgroup.subtree_control
echo +io >/sys/fs/cgroup/shop/cgroup.subtree_control
refuses 2 "no process of its own" ./iolat -g /sys/fs/cgroup/shop
refuses 2 "above 0" ./iolat --alarm 0
refuses 2 "ADDRESS:PORT" ./iolat --listen 19435
refuses 2 "ADDRESS:PORT" ./iolat --listen here:19435
refuses 2 "ADDRESS:PORT" ./iolat --listen 127.0.0.1:70000
refuses 2 "INTERVAL" ./iolat --listen 127.0.0.1:19435 1
refuses 2 "OpenMetrics only" ./iolat --listen 127.0.0.1:19435 --json
refuses 2 "no option --fast" ./iolat --fast
refuses 2 "no option -x" ./iolat -x
refuses 2 "--by lacks its value" ./iolat --by
refuses 2 "-d lacks its value" ./iolat -d
echo "0 2048 linear $DEV 0" | dmsetup create top
refuses 2 "no requests of its own" ./iolat -d dm-0
dmsetup remove top
truncate -s 64m /tmp/parts
modprobe loop
# One partition of 4096 sectors from sector 2048 on.
printf '\203\0\0\0\0\010\0\0\0\020\0\0' | dd of=/tmp/parts bs=1 seek=450 conv=notrunc status=none
printf '\125\252' | dd of=/tmp/parts bs=1 seek=510 conv=notrunc status=none
losetup -P /dev/loop0 /tmp/parts
refuses 2 "partition" ./iolat -d loop0p1
losetup -d /dev/loop0

refuses 1 "root" setpriv --reuid=1000 --clear-groups --inh-caps=-all ./iolat
refuses 1 "too old" setarch --uname-2.6 ./iolat
mkdir /tmp/empty
mount --bind /tmp/empty /sys/kernel/btf
refuses 1 "INFO_BTF" ./iolat
umount /sys/kernel/btf
watch /tmp/metrics --listen 127.0.0.1:19435
refuses 1 "in use" ./iolat --listen 127.0.0.1:19435
end_watch
if ./iolat 0.1 1 >/dev/full 2>/tmp/err; then
	fail "a full disk went unnoticed"
fi
grep -q "can't write" /tmp/err || fail "$(cat /tmp/err)"
