# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# full
# io.sluice.weight: accounts that want tags are served by weight, a cgroup below a weighted one counts as that one, and
# "default" restores thread groups. An invalid weight is refused; the file goes with the module.
. ./lib.sh

accounts=/sys/kernel/debug/block/simdisk-d0/sched/accounts
cgroups=/sys/fs/cgroup

# refused VALUE ERROR: the weight is refused with ERROR, and nothing changes.
refused() {
	error=$(perl -e 'open(F, ">", $ARGV[0]) or die; print defined(syswrite(F, $ARGV[1])) ? 0 : $! + 0' \
		$cgroups/a/io.sluice.weight "$1")
	[ "$error" = "$2" ] || fail "the weight '$1': error $error, not $2"
	[ "$(cat $cgroups/a/io.sluice.weight)" = 300 ] || fail "'$1' made it $(cat $cgroups/a/io.sluice.weight)"
}

# weigh CGROUP WEIGHT
weigh() {
	echo "$2" >$cgroups/"$1"/io.sluice.weight || fail "the weight $2 is refused"
	[ "$(cat $cgroups/"$1"/io.sluice.weight)" = "$2" ] || fail "$2 made it $(cat $cgroups/"$1"/io.sluice.weight)"
}

# readers CGROUP: 150 threads that read, in a cgroup; the process in $reader.
readers() {
	sh -euc 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh $cgroups/"$1" \
		fio --thread --name=read --filename="$DEV" --direct=1 --ioengine=psync --numjobs=150 --rw=randread --bs=4k \
		--size=64m --time_based --runtime=60 --output=/dev/null &
	reader=$!
}

done_by() {
	awk '$1 == "syscr:" { print $2 }' "/proc/$1/io"
}

# ratio LEAST MOST: the reads of $first over those of $second in the same time, in tenths, are between LEAST and MOST.
ratio() {
	sleep 0.2
	before_first=$(done_by $first) before_second=$(done_by $second)
	sleep 1
	read_first=$(($(done_by $first) - before_first)) read_second=$(($(done_by $second) - before_second))
	tenths=$((read_first * 10 / read_second))
	echo "$read_first : $read_second"
	if [ "$tenths" -lt "$1" ] || [ "$tenths" -gt "$2" ]; then
		fail "$read_first : $read_second, not $1 to $2 tenths"
	fi
}

# busy WHAT…: exactly these accounts have tags: "process NUMBER" or "cgroup PATH".
busy() {
	for _ in "$@"; do
		number=${1#* }
		[ "${1% *}" = process ] || number=$(stat -c %i "$cgroups/$number")
		grep -q "^${1% *} $number " $accounts || fail "no $1: $(cat $accounts)"
		shift
		set -- "$@" x
	done
	[ "$(wc -l <$accounts)" = $(($# + 1)) ] || fail "others too: $(cat $accounts)"
}

disk emmc data=none
scheduler cpq
echo 128 >"$Q/nr_requests"
echo +io >$cgroups/cgroup.subtree_control
mkdir $cgroups/a $cgroups/b
echo +io >$cgroups/a/cgroup.subtree_control
mkdir $cgroups/a/inner $cgroups/a/other
echo +io >$cgroups/a/inner/cgroup.subtree_control
mkdir $cgroups/a/inner/most

[ ! -e $cgroups/io.sluice.weight ] || fail "the root has a weight"
[ "$(stat -c %a $cgroups/a/io.sluice.weight)" = 644 ] || fail "mode $(stat -c %a $cgroups/a/io.sluice.weight)"
[ "$(cat $cgroups/a/io.sluice.weight)" = default ] || fail "$(cat $cgroups/a/io.sluice.weight) by default"
weigh b 1
weigh b 1000
weigh b 100
weigh a 300
for value in 0 1001 4294967295 4294967296 99999999999999999999; do
	refused $value 34
done
for value in x -1 '100 100' 10.5 0x 100ms ' ' '
' Default; do
	refused "$value" 22
done

# Two cgroups with 3 : 1; every cgroup below the first one counts as that one.
readers a/inner/most
first=$reader
readers b
second=$reader
until [ "$(done_by $first)" -gt 500 ] && [ "$(done_by $second)" -gt 500 ]; do
	sleep 0.05
done
ratio 27 33
busy "cgroup a" "cgroup b"
# The nearest weight counts, and a change has effect at once.
weigh a/inner 50
ratio 4 6
busy "cgroup a/inner" "cgroup b"
weigh a/inner default
ratio 27 33
weigh a default
ratio 9 11
busy "process $first" "cgroup b"
weigh b default
ratio 9 11
busy "process $first" "process $second"
# A cgroup beside a thread group, whose weight is 100.
weigh b 200
ratio 4 6
# When the weighted cgroup is removed, thread groups are left.
kill $first $second
wait $first $second || :
rmdir $cgroups/b $cgroups/a/inner/most
mkdir $cgroups/b
[ "$(cat $cgroups/b/io.sluice.weight)" = default ] || fail "a new cgroup has the weight of one that was removed"
readers b
first=$reader
readers a/other
second=$reader
until [ "$(done_by $first)" -gt 100 ] && [ "$(done_by $second)" -gt 100 ]; do
	sleep 0.05
done
busy "process $first" "process $second"
weigh a 100
kill $first $second
wait $first $second || :
scheduler none
rmmod cpq sluice-cause
for cgroup in a b a/inner; do
	[ ! -e $cgroups/$cgroup/io.sluice.weight ] || fail "$cgroup has a weight without the module"
done
load cpq
[ "$(cat $cgroups/a/io.sluice.weight)" = default ] || fail "a weight outlives the module"
rmmod cpq sluice-cause
