# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: mq-prio
# dmesg: I/O error
# Merges, splits, requeues, flushes, failures and devices on top: each I/O is counted once, and the books balance.
. ./lib.sh

# figure NAME OP DISK [STAGE]: a sum over the rows of that operation and disk.
figure() {
	awk -F, -v name="$1" -v op="$2" -v disk="$3" -v stage="${4:-q2c}" '
		NR == 1 { for (n = 1; n <= NF; n++) at[$n] = n }
		$2 == disk && $4 == op && $8 == stage { sum += $at[name] }
		END { printf "%.0f\n", sum }' /tmp/csv
}

# expect WHAT VALUE EXPECTED
expect() {
	[ "$2" = "$3" ] || fail "$1: $2, expected $3: $(cat /tmp/json)"
}

# counter NAME
counter() {
	sed "s/.*\"$1\":\([0-9]*\).*/\1/" /tmp/json
}

# row OP DISK FIGURE: of the row in the JSON.
row() {
	sed "s/.*\"device\":\"$2\",\"scheduler\":\"[^\"]*\",\"op\":\"$1\",[^{]*\"$3\":\([0-9]*\),.*/\1/" /tmp/json
}

# balance: each followed I/O has an end, and nothing was lost.
balance() {
	[ "$(counter followed)" = $(($(counter finished) + $(counter merged) + $(counter failed))) ] ||
		fail "the books don't balance: $(cut -c 1-400 /tmp/json)"
	if grep -q '"lost_[a-z]*":[1-9]' /tmp/json; then
		fail "lost: $(cut -c 1-400 /tmp/json)"
	fi
}

# io FIO_OPTION…
io() {
	fio --name=x --thread --filename="$DEV" --direct=1 --ioengine=libaio --size=1m --bs=4k --output=/tmp/fio "$@" ||
		fail "fio: $*"
}

disk ssd queue_depth=1 slots=1 slowdown=20
for scheduler in mq-deadline mq-prio; do
	scheduler $scheduler
	echo 64 >"$Q/nr_requests"

	# 256 bios in far fewer requests, whether the bios join behind, in front or between.
	orders="read read:-8k randread"
	[ $scheduler = mq-prio ] || orders=read:-8k
	for order in $orders; do
		case $order in read:-8k) from="--offset=1m" ;; *) from= ;; esac
		watch /tmp/json --json --order -d "$DEV" --op read
		# shellcheck disable=SC2086
		io --rw=$order $from --iodepth=32
		end_watch
		balance
		expect "$scheduler $order: bios" "$(row read simdisk-d0 bios)" 256
		expect "$scheduler $order: bytes" "$(row read simdisk-d0 bytes)" $((1 << 20))
		[ "$(row read simdisk-d0 ios)" -lt 256 ] || fail "$order: nothing merged"
		[ "$(counter merged)" -gt 0 ] || fail "$order: no merge was seen"
	done
done

# One bio of 1 MiB becomes 16 requests, all of which were queued with the bio.
echo 64 >"$Q/max_sectors_kb"
watch /tmp/json --json -d "$DEV"
io --rw=read --bs=1m
end_watch
balance
expect "split: requests" "$(row read simdisk-d0 ios)" 16
expect "split: bytes" "$(row read simdisk-d0 bytes)" $((1 << 20))

# A durable write, with the flushes that it takes; and flushes of their own.
watch /tmp/csv --csv -d "$DEV"
dd if=/dev/zero of="$DEV" bs=4k count=23 oflag=direct,dsync status=none
end_watch
expect "dsync: writes" "$(figure count write simdisk-d0)" 23
dsync=$(figure p50_ns write simdisk-d0 d2c)
watch /tmp/csv --csv -d "$DEV"
dd if=/dev/zero of="$DEV" bs=4k count=23 oflag=direct status=none
blockdev --flushbufs "$DEV"
sync "$DEV"
end_watch
expect "writes" "$(figure count write simdisk-d0)" 23
plain=$(figure p50_ns write simdisk-d0 d2c)
[ "$dsync" -gt "$plain" ] || fail "a write that is flushed takes $dsync ns, another $plain"
watch /tmp/csv --csv -d "$DEV"
for _ in 1 2 3 4 5; do
	dd if=/dev/zero of="$DEV" bs=4k count=1 conv=fsync oflag=direct status=none
done
end_watch
expect "flushes" "$(figure count flush simdisk-d0)" 5

# I/Os that fail have ended too.
echo 3 >/sys/kernel/config/simdisk/d0/fail_every
watch /tmp/json --json -d "$DEV"
for at in 1 2 3 4 5 6; do
	dd if="$DEV" of=/dev/null bs=4k count=1 skip=$at iflag=direct status=none 2>/dev/null || :
done
end_watch
balance
expect "failing: reads" "$(row read simdisk-d0 ios)" 6
echo 0 >/sys/kernel/config/simdisk/d0/fail_every

# If no tag is free, an I/O that must not wait is refused; another one waits, visibly.
scheduler none
watch /tmp/json --json --order -d "$DEV"
io --rw=randread --ioengine=io_uring --iodepth=32 --number_ios=256 --size=16m
end_watch
balance
expect "few tags: reads" "$(row read simdisk-d0 ios)" 256

# A stacked device without requests, and one with: each I/O is seen once on each disk that has requests.
echo "0 2048 linear $DEV 0" | dmsetup create top
watch /tmp/csv --csv
dd if=/dev/dm-0 of=/dev/null bs=4k count=23 iflag=direct status=none
end_watch
expect "device-mapper: reads below" "$(figure count read simdisk-d0)" 23
expect "device-mapper: reads" "$(figure count read dm-0)" 0
dmsetup remove top
modprobe loop
losetup --direct-io=on /dev/loop0 "$DEV"
watch /tmp/csv --csv
dd if=/dev/loop0 of=/dev/null bs=4k count=23 iflag=direct status=none
end_watch
losetup -d /dev/loop0
expect "loop: reads" "$(figure count read loop0)" 23
expect "loop: reads below" "$(figure count read simdisk-d0)" 23

# The SCSI layer requeues commands with a transport error, every 13th one. It requeues commands for which its HBA has no room
# every few ms: more often than a byte can count.
modprobe sd_mod
modprobe scsi_debug dev_size_mb=16 ndelay=200000
until [ -b /dev/sda ]; do sleep 0.1; done
scsi_debug=/sys/bus/pseudo/drivers/scsi_debug
echo 16 >$scsi_debug/opts
echo 13 >$scsi_debug/every_nth

# busy_read SECONDS: read while the HBA is busy for SECONDS.
busy_read() {
	echo 0x8000 >$scsi_debug/opts
	echo 1 >$scsi_debug/every_nth
	dd if=/dev/sda of=/dev/null bs=4k count=1 iflag=direct status=none &
	reader=$!
	sleep "$1"
	echo 0 >$scsi_debug/opts
	wait $reader
}

watch /tmp/json --json --order -d sda --op read
dd if=/dev/sda of=/dev/null bs=4k count=130 iflag=direct status=none
busy_read 4
end_watch
balance
expect "requeued: reads" "$(row read sda ios)" 131
[ "$(row read sda requeues)" -gt 300 ] || fail "131 reads were requeued $(row read sda requeues) times only"

# One disk more than there is room for: its read does not wait in another disk's line.
modprobe null_blk nr_devices=32
watch /tmp/json --json --order
for n in $(seq 0 31); do
	dd if="/dev/nullb$n" of=/dev/null bs=4k count=1 iflag=direct status=none
done
busy_read 2
end_watch
[ "$(counter lost_order)" -gt 0 ] || fail "there was room for all disks: $(cat /tmp/json)"
if grep -qE '"(rt|be|idle)":[0-9]{9}' /tmp/json; then
	fail "a read of one disk waits in the line of another: $(cat /tmp/json)"
fi
modprobe -r null_blk

# Bios that NVMe's multipath passes on, without an event of their own.
modprobe -a nvme-tcp nvmet-tcp
loopback
nvmet=/sys/kernel/config/nvmet
subsystem=$nvmet/subsystems/sluice
echo "0 $(blockdev --getsz "$DEV") linear $DEV 0" | dmsetup create below
mkdir "$subsystem" "$subsystem/namespaces/1" $nvmet/ports/1
echo 1 >"$subsystem/attr_allow_any_host"
echo /dev/dm-0 >"$subsystem/namespaces/1/device_path"
echo 1 >"$subsystem/namespaces/1/enable"
for pair in trtype=tcp adrfam=ipv4 traddr=127.0.0.1 trsvcid=4420; do
	echo "${pair#*=}" >"$nvmet/ports/1/addr_${pair%=*}"
done
ln -s "$subsystem" $nvmet/ports/1/subsystems/sluice
echo transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=sluice,queue_size=16 >/dev/nvme-fabrics
until [ -b /dev/nvme0n1 ]; do sleep 0.1; done
echo mq-deadline >/sys/block/nvme0c0n1/queue/scheduler

watch /tmp/json --json --order --op read
dd if=/dev/nvme0n1 of=/dev/null bs=4k count=23 iflag=direct status=none
end_watch
balance
expect "reads on the path" "$(row read nvme0c0n1 ios)" 23
expect "reads on the disk below" "$(row read simdisk-d0 ios)" 23

# Discards of one device come one by one, so each job has a device. The driver takes 15 discards, and the rest wait together
# until those end.
for n in $(seq 0 39); do
	echo "0 128 linear /dev/nvme0n1 $((n * 256))" | dmsetup create "d$n"
done
echo 0 >/sys/block/nvme0c0n1/queue/wbt_lat_usec
watch /tmp/json --json --order --op discard
dmsetup suspend below
pids=
for n in $(seq 0 39); do
	blkdiscard -f -l 64k "/dev/dm-$((n + 1))" &
	pids="$pids $!"
done
sleep 1
dmsetup resume below
for pid in $pids; do
	wait "$pid" || fail "a discard failed"
done
end_watch
balance
expect "discards: bios" "$(row discard nvme0c0n1 bios)" 40
[ "$(row discard nvme0c0n1 ios)" -lt 40 ] || fail "no discard joined another"
expect "discards: merged" "$(counter merged)" $((40 - $(row discard nvme0c0n1 ios)))
