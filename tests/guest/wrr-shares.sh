# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: nvme-wrr
# nvme: wrr=on,fetch_ns=100000
# cpus: 2
# The driver on a controller that takes 10000 commands a second. Under saturation the shares match the weights, from two
# processors, in batches that mix classes, and polled. Weights change under load, and keep their values after a reset.
. ./lib.sh
. ./nvme.sh

# shares MS NAME=PER_MILLE…: the share of each in all reads of that time is PER_MILLE, within 3 per cent of it.
shares() {
	pause=$1 all=0
	shift
	for part; do
		bytes "${part%=*}" >"/tmp/${part%=*}.began"
	done
	sleep "$pause"
	for part; do
		echo $(($(bytes "${part%=*}") - $(cat "/tmp/${part%=*}.began"))) >"/tmp/${part%=*}.read"
		all=$((all + $(cat "/tmp/${part%=*}.read")))
	done
	said=
	for part; do
		said="$said ${part%=*} $((1000 * $(cat "/tmp/${part%=*}.read") / all))"
	done
	echo "of 1000:$said; $((all / 4096)) in $pause s"
	for part; do
		off=$((1000 * $(cat "/tmp/${part%=*}.read") / all - ${part#*=}))
		[ "${off#-}" -le $((${part#*=} * 3 / 100 + 1)) ] || fail "of 1000 are$said, not $*"
	done
}

three() {
	load_of high 2 0 64 "$@"
	load_of medium 2 4 64 "$@"
	load_of low 3 0 64 "$@"
	sleep 1
}

controller
[ "$(cat $WRR/state)" = on ] || fail "it is $(cat $WRR/state)"
three --numjobs=2 --cpus_allowed=0-1 --cpus_allowed_policy=split
shares 4 high=615 medium=308 low=77
echo "1 1 8" >$WRR/weights
sleep 0.5
shares 4 high=100 medium=100 low=800
echo 3 >$WRR/burst
sleep 0.5
shares 4 high=100 medium=100 low=800
echo 1 >$CTRL/reset_controller
sleep 0.5
shares 4 high=100 medium=100 low=800
[ "$(cat $WRR/weights) $(cat $WRR/burst)" = "1 1 8 3" ] || fail "after a reset: $(cat $WRR/weights) $(cat $WRR/burst)"
enough

# Two queues of one level share its part: a level's weight is for all its queues.
echo "4 2 1" >$WRR/weights
load_of high 2 0 64 --cpus_allowed=0
load_of medium 2 4 64 --cpus_allowed=0
load_of twin 2 0 64 --cpus_allowed=1
sleep 1
shares 4 high=333 twin=333 medium=333
enough

# A class uses the level that the table gives.
echo "high low low low low low low low low medium" >$WRR/classes
load_of rt 1 0 64
load_of be 2 0 64
load_of idle 3 0 64
sleep 1
shares 4 rt=571 idle=286 be=143
enough
echo "urgent high high high high medium medium medium medium low" >$WRR/classes

# In a batch with requests of two classes each goes to its own queue, and all doorbells are rung: none is left behind.
load_of batch 3 0 64 --ioengine=io_uring --iodepth_batch_submit=16 --iodepth_batch_complete_min=16 \
	--cmdprio_percentage=50 --cmdprio_class=2 --cmdprio=0
sleep 1
before=$(bytes batch)
sleep 1
[ $(($(bytes batch) - before)) -ge $((4096 * 9000)) ] || fail "in a second $((($(bytes batch) - before) / 4096)) of a batch"
enough
expect_dmesg_clean
