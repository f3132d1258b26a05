# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-token split-deadline
# `sluice with` runs a command in a cgroup with the given settings, also below another one. It reports what it can't do, and
# leaves nothing behind.
. ./lib.sh

# refused STATUS WHAT TRY OPTION…: the message has WHAT in its first line, and TRY in its second.
refused() {
	want=$1 what=$2 try=$3 status=0
	shift 3
	./with.sh "$@" >/tmp/said 2>&1 || status=$?
	[ $status = "$want" ] || fail "with $*: status $status, not $want: $(cat /tmp/said)"
	head -n 1 /tmp/said | grep -qF "sluice: " || fail "with $*: $(cat /tmp/said)"
	head -n 1 /tmp/said | grep -qF -- "$what" || fail "with $*: no '$what' in: $(cat /tmp/said)"
	sed -n 2p /tmp/said | grep -qF -- "   next: $try" || fail "with $*: no '$try' in: $(cat /tmp/said)"
	[ "$(wc -l </tmp/said)" = 2 ] || fail "with $*: $(cat /tmp/said)"
	! ls -d "$G"/*/sluice-* "$G"/sluice-* >/tmp/left 2>/dev/null || fail "with $* leaves $(cat /tmp/left)"
}

refused 3 "no disk has the scheduler split-token" "echo split-token > /sys/block/DISK/queue/scheduler" --rate 1MB/s -- true
disk ssd
scheduler split-token
umount "$G"
refused 3 "no cgroup v2 is mounted" "mount -t cgroup2" --rate 1MB/s true
mount -t cgroup2 none "$G"
for rate in 1MB 1 ten 1023B/s 8.1GiB/s -1MB/s 1e6B/s '' 1MB/s/s; do
	refused 2 "--rate $rate: not a rate from 1KiB/s to 8GiB/s" "--rate 10MB/s" --rate "$rate" -- true
done
for weight in '' 0 1001 5.5 ten; do
	refused 2 "--weight $weight: not a weight from 1 to 1000" "--weight 200" "--weight=$weight" -- true
done
refused 2 "no setting is given" "sluice with --rate 10MB/s" -- true
refused 2 "no setting is given" "sluice with --rate 10MB/s"
refused 2 "no command is given" "sluice with --rate 10MB/s" --rate 1MB/s
refused 2 "--rate needs a value" "sluice with --help" --rate
refused 2 "there is no option --rat" "sluice with --help" --rat 1MB/s true
refused 3 "there is no command nonesuch" "type nonesuch" --rate 1MB/s -- nonesuch
refused 3 "no disk has the scheduler split-deadline" "echo split-deadline" --fsync-deadline 5ms -- true
refused 3 "no disk has the scheduler afq" "echo afq" --weight 200 -- true
./with.sh --help | grep -q '^usage: sluice with' || fail "no help"

# The cgroup has the given settings, to the digit; the status and the output are the command's.
# shellcheck disable=SC2016
[ "$(./with.sh --rate 1.5MB/s -- sh -c 'cat $(sed "s,0::,/sys/fs/cgroup,;s,/run,," /proc/self/cgroup)/io.sluice.rate')" = 1500000 ] ||
	fail "1.5MB/s isn't 1500000"
for rate in 1KiB/s:1024 8GiB/s:8589934592 2kB/s:2000 3GB/s:3000000000 1MiB/s:1048576 5000B/s:5000; do
	# shellcheck disable=SC2016
	got=$(./with.sh "--rate=${rate%:*}" sh -c 'cat "/sys/fs/cgroup/sluice-$$/io.sluice.rate"')
	[ "$got" = "${rate#*:}" ] || fail "${rate%:*} is $got"
done
status=0
./with.sh --rate 1MB/s -- sh -c 'exit 7' || status=$?
[ $status = 7 ] || fail "status $status, not 7"
[ "$(echo x | ./with.sh --rate 1MB/s -- sed 's/x/a  b/')" = "a  b" ] || fail "its input or its words are lost"
[ "$(./with.sh --rate 1MB/s -- printf '%s|' 'a b' '--' '*')" = "a b|--|*|" ] || fail "its words are changed"

# The rate holds, also for a command that is started inside with a higher rate.
file_system
dd if=/dev/zero of=/tmp/mnt/x bs=1M count=5 conv=fsync 2>/dev/null
for inner in "" "./with.sh --rate 1GB/s --"; do
	before=$(awk '{ print int($1 * 1000) }' /proc/uptime)
	# shellcheck disable=SC2086
	./with.sh --rate 1MB/s -- $inner dd if=/tmp/mnt/x of=/dev/null bs=64k iflag=direct 2>/dev/null
	took=$(($(awk '{ print int($1 * 1000) }' /proc/uptime) - before))
	if [ $took -lt 4000 ] || [ $took -gt 7000 ]; then
		fail "to read 5 MB at 1 MB/s takes $took ms${inner:+, inside another}"
	fi
done
umount /tmp/mnt

# Empty cgroups are removed; others stay, and so do those that aren't ours.
mkdir "$G/sluice-backup" "$G/sluice-7"
# shellcheck disable=SC2016
./with.sh --rate 1MB/s -- sh -c 'echo $$ >/tmp/pid; exec sleep 600' &
until [ -s /tmp/pid ]; do
	sleep 0.01
done
./with.sh --rate 1MB/s -- true
./with.sh --rate 1MB/s -- true
[ -d "$G/sluice-backup" ] || fail "another run's cgroup has gone"
rmdir "$G/sluice-backup" "$G/sluice-7"
[ "$(find "$G" -maxdepth 1 -name 'sluice-*' | wc -l)" = 2 ] || fail "there are $(ls "$G")"
[ "$(cat "$G/sluice-$(cat /tmp/pid)/run/cgroup.procs")" = "$(cat /tmp/pid)" ] || fail "a process that runs is moved"
kill "$(cat /tmp/pid)"
wait || true
rmdir "$G"/sluice-*/run "$G"/sluice-*

# The message names what blocks the operation, and has the kernel's error; the wait for a lock is limited.
flock "$G" sleep 600 &
sleep 0.2
refused 3 "another process keeps $G locked" "fuser -v $G" --rate 1MB/s -- true
pkill sleep
wait || true
mkdir "$G/full" "$G/full/shell"
# shellcheck disable=SC2016
sh -c 'echo $$ >/sys/fs/cgroup/full/cgroup.procs; exec sleep 600' &
sleep 0.2
# shellcheck disable=SC2016
status=0
sh -c 'echo $$ >/sys/fs/cgroup/full/shell/cgroup.procs; exec ./with.sh --rate 1MB/s -- true' 2>/tmp/said || status=$?
[ $status = 3 ] || fail "a cgroup with processes has others with settings: status $status: $(cat /tmp/said)"
grep -q "enabled below $G/full: Device or resource busy" /tmp/said || fail "it is told: $(cat /tmp/said)"
pkill sleep
wait || true

# Deadlines, together; refused values change nothing. Without CAP_SYS_NICE no shorter ones are accepted.
scheduler split-deadline
refused 2 "--fsync-deadline 99us: not a time from 100us to 60s" "--fsync-deadline 5ms" --fsync-deadline 99us -- true
refused 2 "--read-deadline 1m: not a time" "--read-deadline 5ms" --read-deadline 1m -- true
# shellcheck disable=SC2016
got=$(./with.sh --read-deadline 0.5ms --fsync-deadline 2s -- sh -c 'cat "/sys/fs/cgroup/sluice-$$/io.sluice.deadline"')
[ "$got" = "read=500 fsync=2000000" ] || fail "deadlines are $got"
rmdir "$G"/sluice-*/run "$G"/sluice-*
mkdir "$G/own"
echo fsync=5000 >"$G/own/io.sluice.deadline"
echo +io >"$G/own/cgroup.subtree_control"
mkdir "$G/own/shell"
chown -R 65534 "$G/own"
chown 0 "$G/own/io.sluice.deadline"
# as_nobody OPTION…
cat >/tmp/as_nobody <<'end'
#!/bin/sh
exec sh -c 'echo $$ >/sys/fs/cgroup/own/shell/cgroup.procs
	exec setpriv --reuid 65534 --clear-groups --inh-caps=-all --bounding-set=-all ./with.sh "$@"' sh "$@"
end
chmod +x /tmp/as_nobody
status=0
/tmp/as_nobody --fsync-deadline 1ms -- true 2>/tmp/said || status=$?
[ $status = 3 ] || fail "a process without the right has less time: status $status: $(cat /tmp/said)"
grep -q "refuses io.sluice.deadline of fsync=1000: Operation not permitted" /tmp/said || fail "what is said: $(cat /tmp/said)"
[ -z "$(find "$G/own" -name 'sluice-*')" ] || fail "what was refused stays"
/tmp/as_nobody --fsync-deadline 10ms -- true || fail "a process without the right doesn't get more time"
status=0
/tmp/as_nobody --read-deadline 10ms -- true 2>/tmp/said || status=$?
[ $status = 3 ] || fail "a deadline that doesn't count is taken: status $status: $(cat /tmp/said)"
grep -q "read=10000 µs is less than any disk's own" /tmp/said || fail "what is said: $(cat /tmp/said)"
echo 10 >"$Q/iosched/read_deadline"
/tmp/as_nobody --read-deadline 10ms -- true || fail "a process without the right doesn't get a disk's own"
status=0
setpriv --reuid 65534 --clear-groups --inh-caps=-all --bounding-set=-all ./with.sh --fsync-deadline 10ms -- true \
	2>/tmp/said || status=$?
[ $status = 3 ] || fail "a user that owns no cgroup gets one: status $status: $(cat /tmp/said)"
grep -q "no cgroup can be made in /sys/fs/cgroup: Permission denied" /tmp/said || fail "what is said: $(cat /tmp/said)"
scheduler none
rmmod split-token split-deadline
