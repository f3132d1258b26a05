# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: mq-prio cpq sluice afq split-token split-deadline split-noop wrr
# race: only
# debug
# full
# limit: 3600
# 10,000 switches between all schedulers and 1,000 unloads, while four CPUs read, write and flush. Processes fork in cgroups
# that come and go, the number of tags changes, and all knobs are read and written. Nothing is lost, and nothing stands still.
. ./lib.sh

# Other kernels than the default one have a tenth of these. Those that watch locks and data races take many times as long, and
# report sooner.
part=10 all=50
case $(uname -r) in
*debug* | *kcsan*) part=50 all=5 ;;
6.12.*) part=1 ;;
esac
SWITCHES=$((10000 / part))
UNLOADS=$((1000 / part))
OURS="mq-prio cpq sluice afq split-token split-deadline split-noop wrr"
RIVALS="none mq-deadline bfq kyber"

# start_load: jobs that verify what they write, until /tmp/enough is there.
start_load() {
	fio --thread --time_based --runtime=100000 --trigger-file=/tmp/trigger --output=/out/fio --size=2m --bsrange=4k-64k \
		--rw=randwrite --verify=crc32c --verify_fatal=1 --verify_backlog=32 --thinktime=1ms --thinktime_blocks=4 \
		--name=buffered --directory=/tmp/mnt --fsync=8 \
		--name=direct --directory=/tmp/mnt --direct=1 --ioengine=libaio --iodepth=8 --prioclass=1 \
		--name=idle --filename="$DEV" --offset=300m --direct=1 --ioengine=libaio --iodepth=16 --prioclass=3 \
		--name=be --filename="$DEV" --offset=400m --direct=1 --ioengine=io_uring --iodepth=16 --prioclass=2 --prio=1 &
	load=$!
	for loop in forks tags knobs; do
		until_enough $loop &
		loops="${loops-} $!"
	done
}

# until_enough COMMAND: run the command again and again.
until_enough() {
	times=0
	while [ ! -e /tmp/enough ]; do
		$1
		times=$((times + 1))
	done
	echo "$1: $times" >"/tmp/times-$1"
}

# forks: twenty processes in a cgroup of their own, which is then removed.
forks() {
	mkdir $G/storm
	echo $((times % 1000 + 1)) 2>/dev/null >$G/storm/io.sluice.weight || : # no loaded module has weights at this moment
	# shellcheck disable=SC2016  # of the inner shell
	sh -c 'echo $$ >"$0/cgroup.procs"; for i in $(seq 20); do
			dd if=/dev/zero of="/tmp/mnt/fork$i" bs=4k count=4 conv=fsync status=none &
		done
		wait' $G/storm
	rm /tmp/mnt/fork*
	until rmdir $G/storm 2>/dev/null; do
		sleep 0.01
	done
}

tags() {
	for number in 4 64 5 256; do
		echo $number 2>/dev/null >"$Q/nr_requests" || : # more than the present scheduler can have
		sleep 0.1
	done
}

# knobs: each has the value that it had. The next scheduler may have none of that name, or refuse the value.
knobs() {
	cat /sys/kernel/debug/block/simdisk-d0/sched/* >/dev/null 2>&1 || : # they were removed meanwhile
	for knob in "$Q"/iosched/*; do
		# shellcheck disable=SC2094  # the file is a knob
		{ read -r value <"$knob" && echo "$value" >"$knob" && echo "$knob" >>/tmp/written; } 2>/dev/null || :
	done
	sleep 0.1
}

progress() {
	awk '{ print $1 + $5 }' /sys/block/simdisk-d0/stat
}

# going: the disk's requests end, and the kernel's log shows no error.
going() {
	expect_dmesg_clean
	before=$(progress)
	for _ in $(seq 600); do
		kill -0 $load || fail "the load ended: $(cat /out/fio)"
		[ "$(progress)" -le $((before + 20)) ] || return 0
		sleep 0.1
	done
	fail "$name: all stands still: $(cat "$Q/scheduler")"
}

# pick WORD…: one of the words.
pick() {
	seed=$(((seed * 1103515245 + 12345) & 0x7fffffff))
	shift $(((seed >> 16) % $#))
	name=$1
}

# choose: switch. It starts no process, since starting one takes as long here as a switch. On a busy host the hooks of split are
# sometimes refused because they take 5 s, with a message to try again.
choose() {
	module=$name
	case $name in
	*-*) module=${name%-*}_${name#*-} ;;
	esac
	case " $OURS " in
	*" $name "*) [ -d "/sys/module/$module" ] || load "$name" ;;
	esac
	until echo "$name" 2>/tmp/said >"$Q/scheduler"; do
		dmesg | grep -q "the hooks could not be put in within" || fail "the kernel refuses $name: $(cat /tmp/said)"
		refused=$((refused + 1))
		[ $refused -lt 20 ] || fail "the hooks could not be put in $refused times"
	done
	read -r now <"$Q/scheduler"
	case $now in
	*"[$name]"*) ;;
	*) fail "scheduler is $now, not $name" ;;
	esac
}

# unload: the modules that are not in use, and all of them now and then.
unload() {
	set -- "$last"
	# shellcheck disable=SC2086  # words on purpose
	[ $(((unloads + 1) % all)) != 0 ] || set -- $OURS
	for module; do
		[ "$module" != "$name" ] || continue
		[ -d "/sys/module/$(echo "$module" | tr - _)" ] || continue
		rmmod "$module"
		echo "$module" >>/tmp/unloaded
		unloads=$((unloads + 1))
	done
	if rmmod split 2>/dev/null; then # else another policy is loaded
		echo split >>/tmp/unloaded
	fi
}

weights
disk nvme
[ "$(nproc)$(find "$Q/../mq" -mindepth 1 -maxdepth 1 | wc -l)" = 44 ] || fail "these are no 4 CPUs and 4 hardware queues"
file_system
load kyber-iosched
load bfq
start_load
seed=1 switches=0 unloads=0 refused=0 name=none
while [ $switches -lt "$SWITCHES" ] || [ $unloads -lt "$UNLOADS" ]; do
	last=$name
	# shellcheck disable=SC2086  # words on purpose
	if [ $((switches % 8)) = 7 ]; then pick $RIVALS; else pick $OURS; fi
	[ "$name" != "$last" ] || continue
	choose
	echo "$name" >>/tmp/switched
	switches=$((switches + 1))
	[ $((unloads * SWITCHES)) -ge $((switches * UNLOADS)) ] || case " $OURS " in *" $last "*) unload ;; esac
	[ $((switches % 100)) != 0 ] || going
done
touch /tmp/enough
for loop in $loops; do
	wait "$loop" || fail "a loop failed"
done
touch /tmp/trigger
wait $load || fail "what was written is not there: $(cat /out/fio)"
grep -q READ: /out/fio || fail "nothing was read back"
[ -s /tmp/written ] || fail "no knob was written"
umount /tmp/mnt
fsck.ext4 -nf "$DEV" >/out/fsck 2>&1 || fail "the file system is broken: $(cat /out/fsck)"
! grep -h ^busy= /sys/kernel/debug/block/simdisk-d0/hctx*/*tags | grep -v =0 || fail "tags are lost"
scheduler none
for module in $OURS split; do
	[ ! -d "/sys/module/$(echo "$module" | tr - _)" ] || rmmod "$module"
done
echo "switches to:"
sort /tmp/switched | uniq -c
echo "unloads of:"
sort /tmp/unloaded | uniq -c
echo "knobs written: $(wc -l </tmp/written)"
echo "switches tried again: $refused"
cat /tmp/times-*
