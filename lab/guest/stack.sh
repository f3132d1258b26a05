# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2034  # DEV is for the script that reads this
# Functions beside those of lib.sh for the script of a job with a stack of disks: . ./stack.sh

# needs MODULE…: load modules of the kernel; what isn't among the job's files is built in, or in the image.
needs() {
	for _module; do
		[ ! -e "/job/$_module.ko" ] || load "$_module"
	done
}

# mapped NAME SECTORS TARGET ARGUMENT…: a disk of device-mapper with one target. Sets DEV.
mapped() {
	_name=$1
	_sectors=$2
	shift 2
	echo "0 $_sectors $*" | dmsetup create "$_name" || fail "device-mapper refuses: 0 $_sectors $*"
	DEV=/dev/$(dmsetup info -c --noheadings -o blkdevname "$_name")
}

# size: the sectors of DEV.
size() {
	blockdev --getsz "$DEV"
}

# volume NAME: a volume on DEV as LVM makes it, behind a MiB of its own. Sets DEV.
volume() {
	mapped "$1" $(($(size) - 2048)) linear "$DEV" 2048
}

# encrypted NAME [OPTION…]: a disk whose content is encrypted on DEV, behind a header as large as that of LUKS 2. CIPHER and KEY say
# how: by default by a cipher that changes nothing, as its cost for an emulated processor says nothing of a real one. Sets DEV.
encrypted() {
	needs crypto_null ecb xts dm-crypt
	_luks=$1
	shift
	mapped "$_luks" $(($(size) - 32768)) crypt "${CIPHER:-cipher_null-ecb}" "${KEY:--}" 0 "$DEV" 32768 $(($# + 1)) \
		sector_size:4096 "$@"
}

# thin NAME: a thin volume, all of which has room in its pool on DEV: what isn't there would be read without a disk. Sets DEV.
thin() {
	needs dm-thin-pool
	_below=$DEV
	_block=131072
	_all=$((($(size) - 2048 - 65536) / _block * _block))
	mapped "$1-meta" 65536 linear "$_below" 2048
	_meta=$DEV
	dd if=/dev/zero of="$_meta" bs=4k count=1 oflag=direct status=none
	mapped "$1-data" $_all linear "$_below" 67584
	mapped "$1-pool" $_all thin-pool "$_meta" "$DEV" $_block 0 1 skip_block_zeroing
	dmsetup message "$1-pool" 0 "create_thin 0"
	mapped "$1" $_all thin "$DEV" 0
	for _at in $(seq 0 $((_all / _block - 1))); do
		dd if=/dev/zero of="$DEV" bs=4k count=1 seek=$((_at * _block / 8)) oflag=direct status=none
	done
}

# array LEVEL DISK…: a RAID of md, which takes the disks as alike. MEMBER_KIB is what it uses of each, by default all. Sets DEV.
array() {
	_level=$1
	shift
	needs "$_level"
	echo md0 >/sys/module/md_mod/parameters/new_array
	_md=/sys/block/md0/md
	echo none >$_md/metadata_version
	echo "$_level" >$_md/level
	echo $# >$_md/raid_disks
	[ "$_level" != raid10 ] || echo 524288 >$_md/chunk_size
	[ "$_level" != raid10 ] || echo 258 >$_md/layout
	_slot=0
	for _member; do
		lsblk -dno MAJ:MIN "$_member" | tr -d ' ' >$_md/new_dev
		echo $_slot >"$_md/dev-${_member#/dev/}/slot"
		_slot=$((_slot + 1))
	done
	echo "${MEMBER_KIB:-$(($(blockdev --getsz "$1") / 2 / 1024 * 1024))}" >$_md/component_size
	echo none >$_md/resync_start
	echo active >$_md/array_state
	DEV=/dev/md0
}

# on_file: a loop device on a file of an ext4 on DEV, whose blocks are all there. Sets DEV.
on_file() {
	cat /etc/mke2fs.conf >/tmp/loop.conf
	cat >>/tmp/loop.conf <<-END
		[fs_types]
		loop = {
			make_hugefiles = true
			zero_hugefiles = false
			hugefiles_name = f
			hugefiles_digits = 1
			hugefiles_size = 30g
			num_hugefiles = 1
		}
	END
	MKE2FS_CONFIG=/tmp/loop.conf mkfs.ext4 -q -T ext4,loop -E nodiscard,lazy_itable_init=0 "$DEV" 32g
	mkdir -p /tmp/below
	mount "$DEV" /tmp/below
	load loop
	DEV=$(losetup --find --show --direct-io=on /tmp/below/f0)
}

# stack NAME: put one of the lab's stacks on the job's disks. Sets DEV, its uppermost device; Q stays the first disk's. CRYPT has
# options of dm-crypt for the stack crypt.
# shellcheck disable=SC2086  # words on purpose
stack() {
	case $1 in
	lvm) volume volume ;;
	crypt) encrypted luks ${CRYPT-} ;;
	crypt-lvm)
		encrypted luks
		volume volume
		;;
	thin) thin thin ;;
	raid1) array raid1 /dev/simdisk-d0 /dev/simdisk-d1 ;;
	raid10) array raid10 /dev/simdisk-d0 /dev/simdisk-d1 /dev/simdisk-d2 /dev/simdisk-d3 ;;
	loop) on_file ;;
	*) fail "no stack $1" ;;
	esac
}

# watched COMMAND…: as that of lib.sh, but iolat watches the first of the job's disks: a stack has no requests.
watched() {
	# shellcheck disable=SC2086
	[ -z "${WATCH-}" ] || watch /out/iolat.json -d /dev/simdisk-d0 $WATCH
	"$@"
	[ -z "${WATCH-}" ] || end_watch
}
