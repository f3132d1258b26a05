# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: nvme-wrr
# nvme: wrr=on,fetch_ns=20000,max_ioqpairs=4
# cpus: 2
# Of four submission queues that a controller grants, Linux uses one as an I/O queue. If the controller then refuses the
# siblings, both CPUs have a queue, as with the stock driver.
. ./lib.sh
. ./nvme.sh

# queues NUMBER: the last message of the driver reports NUMBER queues.
queues() {
	dmesg | grep 'default/read/poll queues' | tail -n 1 | grep -q " $1/0/0 default" ||
		fail "not $1 queues: $(dmesg | grep 'default/read/poll queues' | tail -n 1)"
}

controller nvme-wrr
[ "$(cat $WRR/state)" = on ] || fail "it is $(cat $WRR/state)"
queues 1
vendor 0xc3 0 10000000
echo 1 >$CTRL/reset_controller
[ "$(cat $WRR/state)" = "off, no I/O queue could be given four submission queues" ] || fail "refused, it says: $(cat $WRR/state)"
queues 2
for cpu in 0 1; do
	taskset -c $cpu dd if=$DEV of=/dev/null bs=4k count=100 iflag=direct status=none || fail "CPU $cpu can't read"
done
expect_dmesg_clean
