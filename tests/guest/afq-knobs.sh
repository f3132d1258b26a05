# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: afq split-noop
# each
# debug
# Every knob has the default that its device calls for, takes its range and nothing else, and changes under load; the
# scheduler is changed and unloaded in the middle of it, and nothing is lost. A closed gate opens with the last policy.
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

# knobs MOMENT QUANTUM SLACK: with these defaults.
knobs() {
	known=
	knob moment "$1" 0 100000
	knob patience 1000 1 10000
	knob quantum "$2" 0 1048576
	knob slack "$3" 0 1048576
	[ "$(echo "$Q"/iosched/*)" = "${known# }" ] || fail "knobs: $(ls "$Q/iosched")"
}

DISK=d1 disk hdd data=none
scheduler afq
knobs 8000 12288 4096
scheduler none
DISK=d0 disk ssd
scheduler afq
knobs 1000 0 512

# While eight write, make durable, and read, each setting is tried, and each scheduler.
file_system
fio --directory=/tmp/mnt --ioengine=psync --bs=4k --size=1m --loops=4 --verify=crc32c --fallocate=none --fsync=4 --numjobs=4 \
	--name=high --rw=randwrite --prio=0 --name=low --rw=randwrite --prio=7 --output=/out/fio &
load=$!
changed=0
while kill -0 $load 2>/dev/null; do
	for name in afq none split-noop afq mq-deadline afq; do
		scheduler $name
		if [ $name = afq ]; then
			for value in 0 1048576 64; do
				echo $value >"$Q/iosched/slack"
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
