# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: sluice
# each
# Beside commits of best effort 0 a lower rank writes its share and no more, each rank below it a share of that, and its dirty
# data stays small. It is held with the reason shown, can be killed, and has the whole disk once it is alone.
. ./lib.sh

G0=/sys/kernel/debug/split

# beside SECONDS FIO_OPTION…: commits of best effort 0, and other jobs; /tmp/parts has a line "NAME BYTES" for each.
beside() {
	seconds=$1
	shift
	fio --directory=/tmp/mnt --ioengine=psync --time_based=1 --runtime="$seconds" --group_reporting=1 --invalidate=0 \
		--output-format=terse --output=/tmp/fio.terse --name=log --rw=write --bs=8k --size=8m --fdatasync=1 --prio=0 \
		"$@" || fail "fio: $*"
	awk -F';' '{ print $3, ($6 + $47) * 1024 }' /tmp/fio.terse >/tmp/parts
	cat /tmp/parts
}

part() {
	awk -v name="$1" '$1 == name { print $2 }' /tmp/parts
}

# dirty RANK: the most dirty data that a client of a rank had while /tmp/watch was written, in ns of the device.
dirty() {
	awk -v rank="$1" '$3 == rank && $6 > most { most = $6 } END { print most + 0 }' /tmp/watch
}

watch() {
	rm -f /tmp/watch
	while sleep 0.05; do
		cat "$state/clients" >>/tmp/watch
		cat $G0/held >>/tmp/held
	done &
	watch=$!
}

stop_watching() {
	kill $watch
	wait $watch || :
}

disk ssd
scheduler sluice
datasheet ssd
state=/sys/kernel/debug/block/${DEV#/dev/}/sched
file_system -o no_prefetch_block_bitmaps
bulk="--rw=write --bs=64k --size=24m --fsync=0"

# Alone a process is not held.
beside 3
alone=$(part log)
! grep -q ' let_go=[1-9]' $G0/devices || fail "a process alone is held: $(cat $G0/devices)"

# IDLE has 5 % of the device's time: some 70 MB/s written.
watch
# shellcheck disable=SC2086
beside 6 --name=idle --new_group --prioclass=3 $bulk
stop_watching
[ "$(part log)" -ge $((alone * 2 * 85 / 100)) ] || fail "beside IDLE the log writes $(part log), alone $((alone * 2))"
[ "$(part idle)" -ge $((6 * 1000000)) ] || fail "IDLE has but $(part idle) bytes"
[ "$(part idle)" -le $((6 * 5000000)) ] || fail "IDLE has $(part idle) bytes beside commits"
grep -q "reason=rank" /tmp/held || fail "held are $(tail -n 3 /tmp/held)"
tail -n 30 /tmp/watch >/tmp/late && mv /tmp/late /tmp/watch
[ "$(dirty 16)" -le 40000000 ] || fail "IDLE has $(dirty 16) ns dirty beside commits"

# Best effort 7 has much more than IDLE, which gets a share of what the rank above has and still makes progress.
# shellcheck disable=SC2086
beside 8 --name=low --new_group --prio=7 $bulk --name=idle --new_group --prioclass=3 $bulk
[ "$(part low)" -ge $(($(part idle) * 4)) ] || fail "best effort 7 has $(part low), IDLE $(part idle)"
[ "$(part idle)" -gt 0 ] || fail "IDLE starves"

# A direct write that is durable when it returns is limited too: it demands a commit, or a flush.
beside 3 --name=idle --new_group --prioclass=3 --rw=randwrite --bs=4k --size=8m --direct=1 --sync=dsync
[ "$(part log)" -ge $((alone * 80 / 100)) ] || fail "beside direct durable writes the log writes $(part log), alone $alone"
[ "$(part idle)" -gt 0 ] || fail "direct durable writes of IDLE starve"
[ "$(part idle)" -le 420000 ] || fail "IDLE makes $(part idle) bytes durable beside commits"

# Making files beside commits is limited to a share too.
cat >/tmp/names.sh <<'END'
number=0
while echo >"/tmp/mnt/name$number"; do
	number=$((number + 1))
done
END
ionice -c 3 sh /tmp/names.sh &
maker=$!
beside 3
kill $maker
wait $maker || :
[ "$(part log)" -ge $((alone * 80 / 100)) ] || fail "beside new files the log writes $(part log), alone $alone"
names=$(find /tmp/mnt -name 'name*' | wc -l)
echo "names $names"
[ "$names" -ge 20 ] || fail "but $names files were made"
[ "$names" -le 1500 ] || fail "$names files were made beside commits"

# A new process finds little dirty data, however long others were alone: its first commit waits for that data.
ionice -c 3 dd if=/dev/zero of=/tmp/mnt/large bs=256k status=none &
writer=$!
sleep 2
first=$(ionice -c 2 -n 0 python3 -c '
import os, time
file = os.open("/tmp/mnt/first", os.O_WRONLY | os.O_CREAT)
os.write(file, bytes(8192))
began = time.monotonic()
os.fdatasync(file)
print(round((time.monotonic() - began) * 1000))
')
kill $writer
wait $writer || :
rm /tmp/mnt/large
echo "first $first ms"
[ "$first" -le 400 ] || fail "the first commit took $first ms"

# When the others have ended, IDLE has the whole disk: the journal that is written for it is above no rank.
solo() {
	fio --directory=/tmp/mnt --ioengine=psync --output-format=terse --output=/tmp/fio.terse --name=solo --prioclass=3 \
		--rw=write "$@"
	awk -F';' '{ print $49 }' /tmp/fio.terse
}
both() {
	solo --bs=64k --size=48m --end_fsync=1
	solo --bs=4k --size=400k --fsync=1
}
sleep 1
took=$(both)
scheduler none
without=$(both)
scheduler sluice
echo "took" "$took" of "$without" ms
# shellcheck disable=SC2086
set -- $took $without
[ "$1" -le $(($3 * 115 / 100)) ] || fail "IDLE alone takes $1 ms, $3 without a scheduler"
[ "$2" -le $(($4 * 110 / 100)) ] || fail "the commits of IDLE alone take $2 ms, $4 without a scheduler"

# Rewriting dirty data costs nothing, and takes nothing from lower ranks.
ionice -c 2 -n 0 python3 -c '
import os, time
file = os.open("/tmp/mnt/rewritten", os.O_WRONLY | os.O_CREAT)
while True:
    os.pwrite(file, b"x", 0)
    time.sleep(0.02)
' &
writer=$!
sleep 2
# shellcheck disable=SC2086
fio --directory=/tmp/mnt --ioengine=psync --time_based=1 --runtime=4 --output-format=terse --output=/tmp/fio.terse \
	--name=idle --prioclass=3 $bulk
kill $writer
wait $writer || :
written=$(awk -F';' '{ print $47 }' /tmp/fio.terse)
echo "beside rewrites: $written KiB"
[ "$written" -ge 32768 ] || fail "IDLE writes but $written KiB beside one that rewrites a page"

# Processes in held calls can be killed, and leave nothing behind.
fio --directory=/tmp/mnt --name=be --rw=randwrite --bs=4k --size=8m --fsync=1 --prio=0 --time_based --runtime=3 --output=/out/fio &
load=$!
sleep 0.5
pids=
for file in 1 2 3 4; do
	ionice -c 3 dd if=/dev/zero of=/tmp/mnt/idle$file bs=1M status=none &
	pids="$pids $!"
done
# held: how many of them are, at one moment.
held() {
	cat $G0/held >/tmp/now
	for pid in $pids; do
		grep "pid=$pid " /tmp/now || :
	done | wc -l
}
for _ in $(seq 100); do
	now=$(held)
	[ "$now" -lt 4 ] || break
	sleep 0.02
done
[ "$now" -eq 4 ] || fail "not all of$pids are held"
# shellcheck disable=SC2086
kill -KILL $pids
for _ in $(seq 20); do
	[ "$(held)" -gt 0 ] || break
	sleep 0.01
done
[ "$(held)" -eq 0 ] || fail "they were killed and are still held"
awk -v pids="$pids" '{ held += index(pids " ", " " $2 " ") ? $8 : 0 } END { exit held > 0 }' "$state/clients" ||
	fail "a killed process has a held call"
wait $load || fail "fio: $(cat /out/fio)"
umount /tmp/mnt
scheduler none
