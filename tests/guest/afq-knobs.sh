# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: afq split-noop
# Every knob has the default for its device, accepts its range and nothing else, and can be changed under load. The scheduler is
# changed and unloaded under load, and nothing is lost. A closed gate opens when the last policy goes.
. ./lib.sh

# refused KNOB VALUE: writing VALUE must fail and leave the knob as it was.
refused() {
	old=$(cat "$Q/iosched/$1")
	if printf '%s' "$2" 2>/dev/null >"$Q/iosched/$1"; then
		fail "$1 takes '$2'"
	fi
	[ "$(cat "$Q/iosched/$1")" = "$old" ] || fail "$1 was $old, is $(cat "$Q/iosched/$1") after '$2'"
}

# knob NAME DEFAULT LEAST MOST
knob() {
	known="$known $Q/iosched/$1"
	[ "$(cat "$Q/iosched/$1")" = "$2" ] || fail "$1 is $(cat "$Q/iosched/$1"), not $2"
	for value in "$3" "$4" "$2"; do
		echo "$value" >"$Q/iosched/$1" || fail "$1 refuses $value"
		[ "$(cat "$Q/iosched/$1")" = "$value" ] || fail "$1 is $(cat "$Q/iosched/$1"), not $value"
	done
	for value in -1 $(($3 - 1)) $(($4 + 1)) 4294967296 ' ' 0x ten 5.5 '5 5' 5ms; do
		refused "$1" "$value"
	done
}

# knobs BURST_MS COSTS THINK_TIME_US QUANTUM MAX_LAG_KIB: the knobs have these defaults.
knobs() {
	known=
	knob burst_ms "$1" 0 100000
	shift
	known="$known $Q/iosched/costs"
	[ "$(cat "$Q/iosched/costs")" = "$1" ] || fail "costs are $(cat "$Q/iosched/costs"), not $1"
	shift
	knob max_lag_kib "$3" 0 1048576
	knob quantum "$2" 0 1048576
	knob starvation_ms 1000 1 10000
	knob think_time_us "$1" 0 100000
	[ "$(echo "$Q"/iosched/*)" = "${known# }" ] || fail "knobs: $(ls "$Q/iosched")"
}

DISK=d1 disk hdd data=none
scheduler afq
disk_costs="kind=disk read_mbps=150 write_mbps=150 flush_us=5000 rpm=7200 seek_track_us=1000 seek_full_us=16000"
flash_costs="kind=flash read_mbps=500 write_mbps=100 flush_us=1000 read_iops=80000 write_iops=5000"
knobs 1000 "ctrl=auto $disk_costs" 8000 12288 4096
# costs WRITTEN TEXT: after WRITTEN was written, the knob reads as TEXT.
costs() {
	echo "$1" >"$Q/iosched/costs" || fail "costs refuse $1"
	[ "$(cat "$Q/iosched/costs")" = "$2" ] || fail "$1 made costs $(cat "$Q/iosched/costs"), not $2"
}
costs "rpm=5400  flush_us=0" "ctrl=user kind=disk read_mbps=150 write_mbps=150 flush_us=0 rpm=5400 seek_track_us=1000 seek_full_us=16000"
for value in rpm=0 "write_mbps=100 read_mbps=100001" seek_track_us=16001 write_mbps=0; do
	refused costs "$value"
done
for value in rpm "rpm=fast" rpm= read_iops=100 kind=tape ctrl=none ctrl "rpm=7200 speed=1" 7200 "rpm=-1" "rpm=4294967296"; do
	refused costs "$value"
done
# A disk that only reports that it rotates: a read costs its size and its command, as configured.
costs kind=flash "ctrl=user $flash_costs"
costs "read_mbps=1000 write_mbps=1000 read_iops=1000" "ctrl=user kind=flash read_mbps=1000 write_mbps=1000 flush_us=1000 read_iops=1000 write_iops=5000"
echo 1 >/sys/kernel/tracing/events/sluice/afq_dispatch/enable
dd if="$DEV" of=/dev/null bs=4k count=1 skip=4000 iflag=direct status=none
echo 0 >/sys/kernel/tracing/events/sluice/afq_dispatch/enable
grep -q 'cost=1000000$' /sys/kernel/tracing/trace || fail "a read costs: $(cat /sys/kernel/tracing/trace)"
costs "$disk_costs" "ctrl=user $disk_costs"
costs ctrl=auto "ctrl=auto $disk_costs"
scheduler none
DISK=d0 disk ssd
scheduler afq
knobs 500 "ctrl=auto $flash_costs" 1000 0 512

# While eight processes write, make durable, and read, each setting and each scheduler is tried.
file_system
fio --directory=/tmp/mnt --ioengine=psync --bs=4k --size=1m --loops=2 --verify=crc32c --fallocate=none --fsync=4 --numjobs=4 \
	--name=high --rw=randwrite --prio=0 --name=low --rw=randwrite --prio=7 --output=/out/fio &
load=$!
changed=0
while kill -0 $load 2>/dev/null; do
	for name in afq none split-noop afq mq-deadline afq; do
		scheduler $name
		if [ $name = afq ]; then
			for value in 0 1048576 64; do
				echo $value >"$Q/iosched/max_lag_kib"
				echo $value >"$Q/iosched/quantum"
				sleep 0.02
			done
		fi
		sleep 0.02
	done
	changed=$((changed + 1))
done
wait $load || fail "fio: $(cat /out/fio)"
[ $changed -gt 2 ] || fail "changed $changed times only"
umount /tmp/mnt
scheduler none
rmmod afq
rmmod split-noop
rmmod split
