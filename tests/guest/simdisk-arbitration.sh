# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# full
# A drive with weighted round robin fetches by the weights of I/O priorities. Shares are exact, also with 128 KiB requests;
# weights change under load; urgent goes first. With round robin, or on a drive without weights, priorities change nothing.
. ./lib.sh

# The controller alone is the limit: 8000 commands a second.
disk nvme data=none slowdown=1 read_cmd_ns=125000 queue_depth=1023

powered() {
	echo 1 >"$_config/power"
	echo none >"$Q/scheduler"
	echo 1023 >"$Q/nr_requests"
}

# reads NAME CLASS LEVEL DEPTH [FIO_OPTION…]: reads in the background until told to end; an empty CLASS is none.
reads() {
	name=$1 class=$2 level=$3 depth=$4
	shift 4
	fio --name="$name" --filename="$DEV" --direct=1 --bs=4k --ioengine=libaio --rw=randread --norandommap --size=1g \
		${class:+--prioclass="$class" --prio="$level"} --iodepth="$depth" --time_based --runtime=1000 --output=/dev/null "$@" &
	echo $! >"/tmp/$name"
}

# bytes_of NAME: the bytes that it has read so far.
bytes_of() {
	for pid in $(pgrep -P "$(cat "/tmp/$1")"); do
		awk '$1 == "read_bytes:" { print $2 }' "/proc/$pid/io"
	done | awk '{ sum += $1 } END { print sum + 0 }'
}

# shares SECONDS NAME=PER_MILLE…: the share of each in all reads of that time is PER_MILLE, within one per cent.
shares() {
	seconds=$1 all=0
	shift
	for part; do
		bytes_of "${part%=*}" >"/tmp/${part%=*}.began"
	done
	sleep "$seconds"
	for part; do
		echo $(($(bytes_of "${part%=*}") - $(cat "/tmp/${part%=*}.began"))) >"/tmp/${part%=*}.read"
		all=$((all + $(cat "/tmp/${part%=*}.read")))
	done
	said=
	for part; do
		said="$said ${part%=*} $((1000 * $(cat "/tmp/${part%=*}.read") / all))"
	done
	echo "of 1000:$said; $((all / 4096 / seconds)) a second"
	for part; do
		off=$((1000 * $(cat "/tmp/${part%=*}.read") / all - ${part#*=}))
		[ "${off#-}" -le 10 ] || fail "of 1000 are$said, not $*"
	done
}

ended() {
	pkill fio || true
	wait || true
}

powered
[ "$(cat "$_config/arbitration")" = rr ] || fail "it fetches by $(cat "$_config/arbitration")"

# With round robin there is one queue, and each job gets what it asks for.
reads high 2 0 64
reads medium 2 4 64
reads low 3 0 64
sleep 1
shares 1 high=333 medium=333 low=333

# By weights, which change under load, and with bursts.
echo "4 2 1" >"$_config/arbitration"
[ "$(cat "$_config/arbitration")" = "4 2 1 0" ] || fail "it says $(cat "$_config/arbitration")"
sleep 0.2
shares 1 high=571 medium=286 low=143
echo "1 1 8 3" >"$_config/arbitration"
sleep 0.2
shares 1 high=100 medium=100 low=800
echo "256 256 256 7" >"$_config/arbitration"
sleep 0.5
shares 1 high=333 medium=333 low=333

# The urgent job gets all that it asks for, the others nothing.
echo "4 2 1" >"$_config/arbitration"
reads urgent 1 0 64
sleep 1
shares 1 urgent=1000 high=0 medium=0 low=0
kill "$(cat /tmp/urgent)"
wait "$(cat /tmp/urgent)" || true
shares 1 high=571 medium=286 low=143
ended

# A job without a priority is medium; two jobs of one level have half of its share each.
echo "6 2 1" >"$_config/arbitration"
reads one 2 3 64
reads two 2 0 64
reads none "" "" 64
sleep 1
shares 1 one=375 two=375 none=250
ended
echo "4 2 1" >"$_config/arbitration"

# Bytes are in the same ratio as commands if all commands have the same size.
reads high 2 0 64 --bs=128k
reads medium 2 4 64 --bs=128k
reads low 3 0 64 --bs=128k
sleep 1
shares 2 high=571 medium=286 low=143
ended

# The settings outlive a power cycle, like a driver's; a drive that does not support them isn't powered up.
echo 0 >"$_config/power"
[ "$(cat "$_config/arbitration")" = "4 2 1 0" ] || fail "without power it says $(cat "$_config/arbitration")"
echo 0 >"$_config/wrr"
if echo 1 >"$_config/power"; then
	fail "a drive without weights is powered up with some"
fi
dmesg | grep -q "d0: profile nvme fetches in turn; write 1 to wrr first, or rr to arbitration" || fail "no reason"
echo rr >"$_config/arbitration"
powered
reads high 2 0 64
reads low 3 0 64
sleep 1
shares 1 high=500 low=500
if echo "4 2 1" >"$_config/arbitration"; then
	fail "a drive without weights takes some"
fi
ended
