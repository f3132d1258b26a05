# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: sluice afq
# debug
# Every knob has its default, accepts its range and nothing else, and changes under load, while ranks change and processes come
# and go. The scheduler is changed and unloaded under load, and nothing is lost.
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
	[ "$(cat "$Q/iosched/$1")" = "$2" ] || fail "$1 is $(cat "$Q/iosched/$1"), not $2"
	for value in "$3" "$4" "$2"; do
		echo "$value" >"$Q/iosched/$1" || fail "$1 refuses $value"
		[ "$(cat "$Q/iosched/$1")" = "$value" ] || fail "$1 is $(cat "$Q/iosched/$1"), not $value"
	done
	for value in -1 $(($3 - 1)) $(($4 + 1)) 4294967296 ' ' ten 5.5 5ms; do
		refused "$1" "$value"
	done
}

# knobs BURST_MS: burst_ms has this default.
knobs() {
	knob burst_ms "$1" 0 100000
	knob hold_ms 10 0 1000
	knob low_share 5 1 50
	refused costs "speed=1"
	[ "$(cd "$Q/iosched" && echo *)" = "burst_ms costs hold_ms low_share" ] || fail "knobs: $(ls "$Q/iosched")"
}

DISK=d1 disk hdd data=none
scheduler sluice
knobs 1000
scheduler none
DISK=d0 disk ssd
scheduler sluice
knobs 500

# While three ranks write, make durable, and read, each setting is tried, and each scheduler.
file_system
fio --directory=/tmp/mnt --ioengine=psync --bs=4k --size=1m --loops=2 --verify=crc32c --fallocate=none --fsync=4 --numjobs=3 \
	--name=high --rw=randwrite --prio=0 --name=low --rw=randwrite --prio=7 --name=idle --rw=randwrite --prioclass=3 \
	--output=/out/fio &
load=$!
changed=0
while kill -0 $load 2>/dev/null; do
	for name in sluice none afq sluice mq-deadline sluice; do
		scheduler $name
		if [ $name = sluice ]; then
			for value in 0 1 2; do
				echo $((value * 50)) >"$Q/iosched/burst_ms"
				echo $((value * 24 + 1)) >"$Q/iosched/low_share"
				ionice -c $((value + 1)) -p "$(pgrep -n fio || echo 999999)" 2>/dev/null || : # it has just ended
				ionice -c $((value + 1)) touch /tmp/mnt/new
				ionice -c $((value + 1)) rm /tmp/mnt/new
				sleep 0.02
			done
			cat /sys/kernel/debug/block/simdisk-d0/sched/* >/dev/null
		fi
		sleep 0.02
	done
	changed=$((changed + 1))
done
wait $load || fail "fio: $(cat /out/fio)"
[ "$changed" -gt 1 ] || fail "changed $changed times only"
umount /tmp/mnt
scheduler none
rmmod sluice
rmmod sluice-ranks
rmmod afq
rmmod split
