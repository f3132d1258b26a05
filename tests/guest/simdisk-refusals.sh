# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# each
# Bad parameters are refused with a sentence, and change nothing.
. ./lib.sh

config=/sys/kernel/config/simdisk/d0

# refused FILE VALUE SENTENCE: writing VALUE must fail, leave the file as it was, and say SENTENCE.
refused() {
	old=$(cat "$config/$1")
	dmesg -C
	if echo "$2" 2>/dev/null >"$config/$1"; then
		fail "$1 takes $2"
	fi
	[ "$(cat "$config/$1")" = "$old" ] || fail "$1 became $(cat "$config/$1")"
	dmesg | grep -qF "simdisk: d0: $3" || fail "$1 $2: the kernel said: $(dmesg)"
}

load simdisk
mkdir $config
for profile in hdd ssd emmc nvme; do
	echo $profile >$config/profile
	[ "$(cat $config/profile)" = $profile ] || fail "profile is $(cat $config/profile)"
done

echo ssd >$config/profile
refused profile floppy "profile takes hdd, ssd, emmc or nvme"
refused queue_depth 0 "queue_depth takes 1 to 1024, not 0"
refused queue_depth 1025 "queue_depth takes 1 to 1024, not 1025"
refused queue_depth -1 "queue_depth takes a whole number"
refused queue_depth many "queue_depth takes a whole number"
refused queue_depth 99999999999999999999 "queue_depth takes a whole number"
refused sectors 7 "sectors takes 8 to 34359738368, not 7"
refused slowdown 0 "slowdown takes 1 to 1000, not 0"
refused rpm 7200 "profile ssd has no rpm"
refused data some "data takes sparse or none"
refused power maybe "power takes 0 or 1"
refused fail_every -1 "fail_every takes a whole number"
refused hang_every 4294967296 "hang_every takes 0 to 4294967295"
refused arbitration "4 2 1" "profile ssd fetches in turn; write 1 to wrr first, or rr to arbitration"
echo hdd >$config/profile
refused channels 8 "profile hdd has no channels"
echo 100 >$config/outer_mbps
echo 200 >$config/inner_mbps
refused power 1 "inner_mbps may not exceed outer_mbps"

# Every parameter reads as a number, and accepts its own value if the drive has the parameter.
echo nvme >$config/profile
for file in "$config"/*; do
	case ${file##*/} in
	profile | data | stats | power | arbitration) continue ;;
	esac
	value=$(cat "$file")
	[ "$value" -ge 0 ] || fail "${file##*/} is $value"
	if [ "$value" -gt 0 ]; then
		echo "$value" >"$file" || fail "${file##*/} refuses its own value $value"
	fi
done

for weights in "" wrr "rr 1" 4 "4 2" "0 2 1" "4 257 1" "4 2 4294967297" "4 2 -1" "4 2 1 8" "4 2 1 -1" "4 2 1 0 0" "4 2 one" "0x4 2 1" "4 00021"; do
	refused arbitration "$weights" "arbitration takes rr, or three weights, 1 to 256, and a burst, 0 to 7"
done

echo 1 >$config/power
refused queue_depth 16 "queue_depth can't change while power is 1; write 0 to power first"
refused profile ssd "profile can't change while power is 1"
refused data none "data can't change while power is 1"
echo 1 >$config/power
echo 0 >$config/power
echo 0 >$config/power
echo 16 >$config/queue_depth

long=/sys/kernel/config/simdisk/a-name-that-is-too-long-for-a-disk
if mkdir $long 2>/dev/null; then
	fail "a name too long is taken"
fi
if rmmod simdisk 2>/dev/null; then
	fail "the module went under a disk"
fi
rmdir $config
rmmod simdisk
expect_dmesg_clean
