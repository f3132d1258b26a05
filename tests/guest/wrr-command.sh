# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: nvme-wrr
# nvme: wrr=on,fetch_ns=100000
# sluice wrr shows the state, binds and gives back, and refuses a disk in use and impossible values. It sets weights, and finds
# that this drive honours them.
. ./lib.sh
. ./nvme.sh

# wrr ARGUMENT…: run sluice wrr; its output goes to /tmp/said.
wrr() {
	status=0
	python3 -B -m lab.host.cli wrr "$@" >/tmp/said 2>&1 || status=$?
	cat /tmp/said
	return $status
}

# expect STATUS PATTERN ARGUMENT…
expect() {
	wanted=$1 pattern=$2
	shift 2
	status=0
	wrr "$@" || status=$?
	[ "$status" = "$wanted" ] || fail "sluice wrr $* ends with $status, not $wanted"
	grep -qE -- "$pattern" /tmp/said || fail "sluice wrr $*: no '$pattern'"
}

controller nvme
expect 0 "nvme0: $PCI, driver nvme, disks: nvme0n1" status
expect 0 "next: sluice wrr bind -c nvme0" status
expect 3 "is with nvme, not nvme-wrr" weights 1 2 3
expect 2 "no NVMe controller nvme7; there are nvme0" bind -c nvme7

# In use: opened, and claimed.
exec 9<$DEV
expect 3 "in use: process $$ has $DEV open" bind
exec 9<&-
modprobe dm-mod
echo "0 8 linear $DEV 0" | dmsetup create --noudevsync on-it
expect 3 "in use: nvme0n1 is part of dm-0" bind
dmsetup remove --noudevsync on-it
# By another name, as a character device, mapped, below a loop device, as an export of NVMe's target.
mknod /tmp/node b $((0x$(stat -c %t $DEV))) $((0x$(stat -c %T $DEV)))
exec 9</tmp/node
expect 3 "in use: process $$ has /tmp/node open" bind
exec 9<&-
exec 9</dev/ng0n1
expect 3 "in use: process $$ has /dev/ng0n1 open" bind
exec 9<&-
python3 -c 'import mmap, os, time
disk = os.open("/tmp/node", os.O_RDONLY)
page = mmap.mmap(disk, 4096, prot=mmap.PROT_READ)
os.close(disk)
open("/tmp/mapped", "w").close()
time.sleep(1000)' &
until [ -e /tmp/mapped ]; do sleep 0.05; done
expect 3 "in use: process $! has /tmp/node open" bind
kill $!
wait $! || true
modprobe loop
losetup /dev/loop0 /tmp/node
expect 3 "in use: /tmp/node is open for /sys/block/loop0" bind
losetup -d /dev/loop0
modprobe nvmet
namespace=/sys/kernel/config/nvmet/subsystems/other/namespaces/1
mkdir -p "${namespace%/*/*}"
mkdir "$namespace"
echo /tmp/node >"$namespace/device_path"
echo 1 >"$namespace/enable"
expect 3 "in use: /tmp/node is open for $namespace" bind
rmdir "$namespace" "${namespace%/*/*}"
[ "$(basename "$(readlink $BUS/devices/"$PCI"/driver)")" = nvme ] || fail "a controller in use was taken away"

# The module isn't there: the controller stays with its driver.
expect 3 "module nvme-wrr can't be loaded" bind
[ "$(basename "$(readlink $BUS/devices/"$PCI"/driver)")" = nvme ] || fail "a controller was lost"
load nvme-wrr
setpriv --reuid=1000 --clear-groups python3 -B -m lab.host.cli wrr bind >/tmp/said 2>&1 && fail "any user may bind"
grep -q "only root" /tmp/said || fail "$(cat /tmp/said)"

expect 0 "is with nvme-wrr, disks: nvme0n1" bind
expect 0 "nvme0: is with nvme-wrr" bind -c "$DEV"
expect 0 "weights: high 64, medium 32, low 8; burst 1" status
expect 2 "is not a weight from 1 to 256" weights 1 2 257
expect 2 "following arguments are required: LOW" weights 1 2
expect 0 "nvme0: high 5, medium 3, low 1" weights 5 3 1
[ "$(cat $WRR/weights)" = "5 3 1" ] || fail "weights are $(cat $WRR/weights)"

expect 0 "nvme0 honours its weights: shares are at most [0-9]% off" probe --seconds 1
grep -qE "urgent beside +urgent +(8[5-9]|9[0-9])" /tmp/said || fail "urgent isn't first"
[ "$(cat $WRR/weights)" = "5 3 1" ] || fail "the probe left weights $(cat $WRR/weights)"
[ "$(pgrep -c fio)" = 0 ] || fail "the probe left fio"
exec 9<$DEV
expect 3 "in use, which would be measured too" probe
exec 9<&-

expect 0 "is with nvme, disks: nvme0n1" unbind
expect 0 "is with nvme" unbind
rmmod nvme-wrr
expect_dmesg_clean
