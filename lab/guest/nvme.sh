# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2034,SC2120  # what is here is for the script that reads this
# Functions beside those of lib.sh for the script of a job with an NVMe controller: . ./nvme.sh

BUS=/sys/bus/pci
DEV=/dev/nvme0n1
Q=/sys/block/nvme0n1/queue
CTRL=/sys/class/nvme/nvme0
WRR=$CTRL/wrr
PCI=$(basename "$(dirname "$(grep -l 0x010802 $BUS/devices/*/class)")")

# present [NOT]: wait until there is a disk, or with NOT until there is none.
present() {
	for _ in $(seq 200); do
		if [ -b "$DEV" ]; then _is=""; else _is=not; fi
		[ "$_is" = "${1:-}" ] && return 0
		sleep 0.05
	done
	fail "$DEV is ${_is:-still} there"
}

# controller [DRIVER]: bind the controller to our driver, or to the stock one, and set no scheduler. The kernel would set one on
# a disk with one queue.
controller() {
	_driver=${1:-nvme-wrr}
	[ "$_driver" = nvme ] || modprobe nvme-core
	load "$_driver"
	echo "$_driver" >"$BUS/devices/$PCI/driver_override"
	echo "$PCI" >$BUS/drivers_probe
	present
	echo none >$Q/scheduler
}

# vendor OPCODE BEGIN_MS FOR_MS: one of the controller's own admin commands (lab/controller/sluice.h).
vendor() {
	python3 - "$@" <<-'END'
		import fcntl, struct, sys
		opcode, begin, lasts = (int(word, 0) for word in sys.argv[1:])
		command = struct.pack("=BBHIIIQQIIIIIIIIII", opcode, 0, 0, 0, 0, 0, 0, 0, 0, 0, begin, lasts, 0, 0, 0, 0, 0, 0)
		with open("/dev/nvme0") as device:
		    fcntl.ioctl(device, 0xC0484E41, command)
	END
}

# load_of NAME CLASS LEVEL DEPTH [OPTION…]: random reads with an I/O priority in the background, which end by `enough`.
load_of() {
	_name=$1 _class=$2 _level=$3 _depth=$4
	shift 4
	fio --name="$_name" --filename="$DEV" --direct=1 --bs=4k --ioengine=libaio --rw=randread --norandommap \
		--iodepth="$_depth" --prioclass="$_class" --prio="$_level" --time_based --runtime=10000 \
		--output-format=json --output="/tmp/$_name.json" "$@" >/dev/null 2>&1 &
}

# bytes NAME: the bytes that the processes of a load have read.
bytes() {
	for _pid in $(pgrep -f -- "--name=$1 "); do
		sed -n 's/^read_bytes: //p' "/proc/$_pid/io" 2>/dev/null
	done | sum
}

sum() {
	awk '{ all += $1 } END { printf "%d\n", all }'
}

enough() {
	pkill -TERM fio || true
	wait
}
