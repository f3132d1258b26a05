# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# dm-multipath asks for a path's tag where it may not sleep. Its requests are refused, come back, and are all done, beside a
# process that has all tags but the reserved one and waits for more.
. ./lib.sh

accounts=/sys/kernel/debug/block/simdisk-d0/sched/accounts

disk emmc data=none
scheduler cpq
echo 32 >"$Q/nr_requests"
load dm-multipath
load dm-round-robin
echo "0 524288 multipath 0 0 1 1 round-robin 0 1 1 $DEV 1" | dmsetup create top
fio --thread --name=readers --filename="$DEV" --direct=1 --ioengine=psync --rw=randread --bs=4k --size=64m --numjobs=40 \
	--time_based --runtime=60 --output=/out/readers &
readers=$!
until grep -q 'used=31 ' $accounts; do
	sleep 0.01
done
fio --thread --name=top --filename=/dev/dm-0 --direct=1 --ioengine=libaio --rw=randread --bs=4k --size=64m --iodepth=64 \
	--number_ios=2000 --output=/out/top || fail "fio: $(cat /out/top)"
kill $readers
wait $readers || :
dmsetup remove top
scheduler none
expect_dmesg_clean
