# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: nvme-wrr
# nvme: wrr=on,fetch_ns=100000
# cpus: 2
# Urgent goes first, but an endless urgent load doesn't starve the rest: each other class that waits keeps at least the share of
# the cap. Without a cap it has next to nothing.
. ./lib.sh
. ./nvme.sh

# of_both SECONDS: the others' share from now on, of 1000.
of_both() {
	flood=$(bytes flood) other=$(bytes other)
	sleep "$1"
	flood=$(($(bytes flood) - flood)) other=$(($(bytes other) - other))
	[ "$flood" -gt 0 ] || fail "urgent has nothing"
	echo $((1000 * other / (flood + other)))
}

flood() {
	load_of flood 1 0 128 --numjobs=2 --cpus_allowed=0-1 --cpus_allowed_policy=split
}

controller

# The others' reads from before don't count against them.
load_of other 3 0 64
sleep 3
flood
until [ "$(bytes flood)" -gt 0 ]; do sleep 0.01; done
share=$(of_both 0.3)
echo "low, which was there before: $share of 1000"
[ "$share" -ge 100 ] || fail "the one that was there before has $share of 1000"
enough

for of in "3 0" "2 7" "2 0"; do
	flood
	load_of other "${of% *}" "${of#* }" 64
	sleep 1
	share=$(of_both 8)
	echo "class ${of% *} level ${of#* } beside an urgent flood: $share of 1000"
	[ "$share" -ge 100 ] || fail "the cap is 10 %, and it has $share of 1000"
	enough
done

# No more than the cap is taken from urgent if the weights would give others more.
flood
load_of other 2 0 128 --numjobs=2
sleep 1
share=$(of_both 8)
echo "twice as much of high: $share of 1000"
[ "$share" -le 200 ] || fail "urgent has lost $share of 1000"
echo 25 >$WRR/cap
sleep 1
share=$(of_both 8)
echo "with a cap of 25 %: $share of 1000"
[ "$share" -ge 250 ] || fail "the cap is 25 %, and they have $share of 1000"
echo 0 >$WRR/cap
sleep 1
share=$(of_both 4)
echo "without a cap: $share of 1000"
[ "$share" -le 20 ] || fail "without a cap they have $share of 1000"
enough

expect_dmesg_clean
