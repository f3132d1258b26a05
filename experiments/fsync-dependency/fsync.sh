# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# One process appends 4 KiB and makes it durable, again and again. Beside it another one writes N bytes to random places of a
# new file of 4 GiB, 4 KiB each, and makes them durable.
if [ "$FS" = xfs ]; then
	mkfs.xfs -q -K "$DEV"
	mkdir -p /tmp/mnt
	mount "$DEV" /tmp/mnt
else
	# shellcheck disable=SC2086
	large_files 1 1m $MOUNT
fi
for knob in read_expire write_expire; do
	[ ! -e "$Q/iosched/$knob" ] || echo "$EXPIRE" >"$Q/iosched/$knob"
done

# job NAME OPTION…
job() (
	name=$1
	shift
	exec fio --name="$name" --filename="/tmp/mnt/$name" --ioengine=psync --bs=4k --zero_buffers=1 --fallocate=none \
		--time_based=1 --runtime="$RUNTIME" --randseed="$SEED" --lat_percentiles=1 --clat_percentiles=1 \
		--output-format=json+ --output="/out/fio-$name.json" "$@"
)

# The number of 4 KiB blocks in N.
blocks() {
	case $1 in
	*m) echo $((${1%m} * 256)) ;;
	*k) echo $((${1%k} / 4)) ;;
	esac
}

measure() {
	[ -z "$BIG" ] || job big --size=4g --rw=randwrite --norandommap=1 --fsync="$(blocks "$BIG")" &
	job small --size=256m --rw=write --fsync=1
	wait
}

watched measure
