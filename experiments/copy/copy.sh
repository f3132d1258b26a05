# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# A database's log and its reads, both best effort 0, on the disk of a neighbour that works through the page cache. The log
# appends LOG bytes and calls fdatasync after each. The neighbour reads from behind the file system, where the disk has data.
case $FS in
ext4) mkfs.ext4 -q -N 262144 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 24g ;;
xfs) mkfs.xfs -q -K -d size=24g "$DEV" ;;
esac
mkdir -p /tmp/mnt
mount "$DEV" /tmp/mnt

# The neighbours. Each but remove has work for longer than the measurement.

copy() {
	dd if="$DEV" of=/tmp/mnt/copy bs=1M skip=40960 status=none
}

# mapped: store to every page of a mapped file.
mapped() {
	python3 -c '
import mmap, os
file = open("/tmp/mnt/mapped", "r+b")
pages = mmap.mmap(file.fileno(), 0)
for at in range(0, len(pages), 4096):
    pages[at] = 0
    if at % 65536 == 0:
        open("/tmp/next", "w").write(str(at))
        os.replace("/tmp/next", "/tmp/far")
'
}

# unpack: small files out of an archive in memory, into one folder after another.
unpack() {
	number=0
	while mkdir "/tmp/mnt/tree$number"; do
		tar -C "/tmp/mnt/tree$number" -xf /tmp/small.tar
		number=$((number + 1))
	done
}

remove() {
	rm -r /tmp/mnt/tree*
}

# pull: an update of an operating system: objects of 72 KiB on average, each made durable.
pull() {
	python3 -c '
import os, random
random.seed(int("'"$SEED"'"))
block = bytes(144 * 1024)
for number in range(10**6):
    file = os.open(f"/tmp/mnt/object{number}", os.O_WRONLY | os.O_CREAT)
    os.write(file, block[: random.randrange(1, len(block))])
    os.fsync(file)
    os.close(file)
    open("/tmp/next", "w").write(str(number + 1))
    os.replace("/tmp/next", "/tmp/far")
'
}

# small_files NUMBER: make an archive of NUMBER files of 16 KiB.
small_files() {
	mkdir /tmp/small
	for number in $(seq "$1"); do
		head -c 16384 /dev/zero >"/tmp/small/$number"
	done
	tar -C /tmp/small -cf /tmp/small.tar .
	rm -r /tmp/small
}

echo 0 >/tmp/far
case $NEIGHBOUR in
unpack) small_files 100 ;;
remove)
	small_files 100
	for number in $(seq 80); do
		mkdir "/tmp/mnt/tree$number"
		tar -C "/tmp/mnt/tree$number" -xf /tmp/small.tar
	done
	sync
	;;
mapped) truncate -s 8g /tmp/mnt/mapped ;;
esac

# far: print the neighbour's progress.
far() {
	case $NEIGHBOUR in
	copy) stat -c %s /tmp/mnt/copy ;;
	unpack) find /tmp/mnt/tree* -type f | wc -l ;;
	remove) echo $((8000 - $(find /tmp/mnt/tree* -type f | wc -l))) ;;
	*) cat /tmp/far ;;
	esac
}

# job NAME OPTION…: run fio with the page cache left alone; emptying it would first make the neighbour's file system durable.
job() (
	name=$1
	shift
	exec fio --name="$name" --prioclass=2 --prio=0 --time_based=1 --runtime="$RUNTIME" --invalidate=0 \
		--randseed="$SEED" --lat_percentiles=1 --clat_percentiles=1 --output-format=json+ \
		--output="/out/fio-$name.json" "$@"
)

measure() {
	begin=
	if [ -n "$NEIGHBOUR" ]; then
		# Processes that are started inherit it.
		# shellcheck disable=SC2086
		ionice $IONICE -p $$
		"$NEIGHBOUR" &
		ionice -c 0 -p $$
		sleep "$RAMP"
		begin=$(far)
	fi
	if [ -n "$DATABASE" ]; then
		job log --filename=/tmp/mnt/log --size=1g --rw=write --bs="$LOG" --ioengine=psync --fdatasync=1 --zero_buffers=1 \
			--fallocate=none &
		log=$!
		job reads --filename="$DEV" --offset=32g --size=8g --rw=randread --norandommap=1 --bs=4k --direct=1 \
			--ioengine=libaio --iodepth=4 &
		wait "$log" $!
	else
		sleep "$RUNTIME"
	fi
	[ -z "$NEIGHBOUR" ] || echo "$(far) $begin $RUNTIME" | awk '{ print "neighbour", ($1 - $2) / $3 }' >/out/readings
}

watched measure
