# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: sluice afq split-token split-deadline
# full: afq split-token split-deadline
# Whatever the costs begin with, they become the drive's: all of them ten times too high, and ten times too low. What an
# administrator has set stays.
. ./lib.sh

# load_drive FIO_OPTION…: for two seconds. Sets mbps and iops to what the drive does.
load_drive() {
	fio --name=x --filename="$DEV" --direct=1 --ioengine=libaio --runtime=2 --time_based --randrepeat=0 --output=/out/fio \
		--output-format=json "$@"
	set -- "$(python3 -c 'import json; job = json.load(open("/out/fio"))["jobs"][0]
for one in job["read"], job["write"]:
    if one["total_ios"]:
        print(round(one["bw_bytes"] / 1e6), round(one["iops"]))')"
	mbps=${1% *} iops=${1#* }
}

# cost NAME: what is known of the drive.
cost() {
	sed "s/.* $1=\([0-9]*\).*/\1/" "$Q/iosched/costs"
}

# near NAME VALUE: it is known within a quarter.
near() {
	known=$(cost "$1")
	if [ "$known" -lt $(($2 * 3 / 4)) ] || [ "$known" -gt $(($2 * 5 / 4)) ]; then
		fail "the drive's $1 is $2: $(cat "$Q/iosched/costs")"
	fi
}

loads() {
	load_drive --rw=randread --bs=4k --iodepth=32
	read_iops=$iops
	load_drive --rw=read --bs=128k --iodepth=8
	read_mbps=$mbps
	load_drive --rw=randwrite --bs=4k --iodepth=32
	write_iops=$iops
	load_drive --rw=write --bs=128k --iodepth=8
	write_mbps=$mbps
}

disk ssd data=none
scheduler "$SCHEDULER"
case $(cat "$Q/iosched/costs") in
"ctrl=auto kind=flash "*) ;;
*) fail "costs begin as $(cat "$Q/iosched/costs")" ;;
esac
loads
for begin in "$((read_mbps * 10)) $((write_mbps * 10)) $((read_iops * 10)) $((write_iops * 10))" \
	"$((read_mbps / 10)) $((write_mbps / 10)) $((read_iops / 10)) $((write_iops / 10))"; do
	# shellcheck disable=SC2086  # words on purpose
	set -- $begin
	echo "ctrl=auto read_mbps=$1 write_mbps=$2 read_iops=$3 write_iops=$4" >"$Q/iosched/costs"
	for _ in 1 2 3 4; do
		loads
	done
	cat "$Q/iosched/costs"
	near read_mbps "$read_mbps"
	near write_mbps "$write_mbps"
	near read_iops "$read_iops"
	near write_iops "$write_iops"
done
grep -q "^simdisk-d0 $(cat "$Q/iosched/costs") inside=0$" /sys/kernel/debug/split/costs ||
	fail "debugfs has $(cat /sys/kernel/debug/split/costs)"

echo "read_mbps=1000 write_mbps=1000" >"$Q/iosched/costs"
before=$(cat "$Q/iosched/costs")
loads
[ "$(cat "$Q/iosched/costs")" = "$before" ] || fail "what was set has changed: $(cat "$Q/iosched/costs")"
case $before in
"ctrl=user "*) ;;
*) fail "costs that were set are $before" ;;
esac

# A flush: off by a factor of ten.
for begin in 10 1000; do
	echo "ctrl=auto flush_us=$((begin * 70))" >"$Q/iosched/costs"
	load_drive --rw=randwrite --bs=4k --fsync=1 --runtime=3
	flush_us=$(python3 -c 'import json; print(round(json.load(open("/out/fio"))["jobs"][0]["sync"]["lat_ns"]["mean"] / 1e3))')
	cat "$Q/iosched/costs"
	near flush_us "$flush_us"
done
