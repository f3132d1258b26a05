# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: nvme-wrr
# nvme: wrr=on,fetch_ns=100000
# cpus: 2
# dmesg: I/O error, dev nvme
# The driver's files refuse impossible values, and nothing changes. A command that times out is aborted in the queue that it is
# in. The controller sleeps and wakes; polled queues have four classes as well; nothing is bound unasked.
. ./lib.sh
. ./nvme.sh

# refused FILE VALUE…
refused() {
	file=$1
	shift
	before=$(cat "$WRR/$file")
	for value; do
		if sh -c 'printf "%s\n" "$0" >"$1"' "$value" "$WRR/$file" 2>/dev/null; then
			fail "$file takes '$value'"
		fi
		[ "$(cat "$WRR/$file")" = "$before" ] || fail "after '$value' $file is $(cat "$WRR/$file"), not $before"
	done
}

modprobe nvme-core
load nvme-wrr
[ ! -e "$BUS/devices/$PCI/driver" ] || fail "a controller was bound without a request"
controller

refused weights "" "1" "1 2" "1 2 3 4" "0 1 1" "1 1 257" "-1 1 1" "a b c" "1 2 3x" "99999999999 1 1" "1,2,3" "00012 3" "02561 1" "1 02561"
refused burst "" "8" "-1" "x" "3 3"
refused cap "" "26" "-1" "x" "10%"
refused classes "" "urgent" "urgent high high high high medium medium medium medium" "none high high high high medium medium medium medium low" \
	"urgent high high high high medium medium medium medium low low"
if setpriv --reuid=1000 sh -c "echo '1 1 1' >$WRR/weights" 2>/dev/null; then
	fail "any user may change weights"
fi

# Extreme values are accepted too.
echo "256 1 256" >$WRR/weights
echo 7 >$WRR/burst
echo 0 >$WRR/cap
[ "$(cat $WRR/weights) $(cat $WRR/burst) $(cat $WRR/cap)" = "256 1 256 7 0" ] || fail "it says $(cat $WRR/weights)"
echo "64 32 8" >$WRR/weights

# The controller takes no I/O for some seconds: each class's command is aborted in its own queue. It is fetched later, and
# nothing is lost.
sleep 0.1
echo 3000 >/sys/block/nvme0n1/queue/io_timeout
echo 1 >/sys/kernel/tracing/events/nvme/nvme_setup_cmd/enable
vendor 0xc2 0 4500
sleep 0.01
cpu=$(cat /sys/block/nvme0n1/mq/1/cpu_list)
for of in "1 0" "2 0" "2 4" "3 0"; do
	taskset -c "$cpu" ionice -c "${of% *}" -n "${of#* }" dd if=$DEV of=/dev/null bs=4k count=1 iflag=direct status=none &
done
wait
grep -o 'nvme_admin_abort_cmd.*' /sys/kernel/tracing/trace | sed 's/.*cdw10=\([0-9a-f]*\) \([0-9a-f]*\).*/\1 \2/' | sort >/tmp/aborted
cat /tmp/aborted
# In the second of two I/O queues: urgent 4, high 6, medium 2, low 8.
[ "$(tr '\n' , </tmp/aborted)" = "02 00,04 00,06 00,08 00," ] || fail "aborted were: $(cat /tmp/aborted)"
echo 0 >/sys/kernel/tracing/events/nvme/nvme_setup_cmd/enable

# The controller stays blocked: at the second timeout of a command the controller is reset, and then the command is done.
vendor 0xc2 0 10000
sleep 0.01
ionice -c 3 dd if=$DEV of=/dev/null bs=4k count=1 iflag=direct status=none || fail "a command was lost in a reset"
dmesg | grep -q 'timeout, reset controller' || fail "the controller wasn't reset"

# Sleep.
echo devices >/sys/power/pm_test
load_of awake 3 0 32
sleep 0.2
echo freeze >/sys/power/state
before=$(bytes awake)
sleep 0.5
[ "$(bytes awake)" -gt "$before" ] || fail "nothing is read after a sleep"
enough
[ "$(cat $WRR/weights) $(cat $WRR/state)" = "64 32 8 on" ] || fail "after a sleep: $(cat $WRR/weights) $(cat $WRR/state)"

# A controller that grants queues, and then refuses some, is used as by the stock driver; from the next reset on it has all
# queues.
vendor 0xc3 0 10000000
echo 1 >$CTRL/reset_controller
[ "$(cat $WRR/state)" = "off, no I/O queue could be given four submission queues" ] || fail "refused, it says: $(cat $WRR/state)"
for of in 1 2 3; do
	ionice -c $of dd if=$DEV of=/dev/null bs=4k count=100 iflag=direct status=none || fail "class $of can't read"
done
vendor 0xc3 0 0
echo 1 >$CTRL/reset_controller
[ "$(cat $WRR/state)" = on ] || fail "after a reset it is $(cat $WRR/state)"

# Polled queues.
echo "$PCI" >$BUS/drivers/nvme-wrr/unbind
rmmod nvme-wrr
insmod /job/nvme-wrr.ko poll_queues=1
controller
[ "$(cat $WRR/state)" = on ] || fail "with a polled queue it is $(cat $WRR/state)"
dmesg | grep -q '/0/1 default/read/poll queues' || fail "there is no polled queue"
for of in 1 2 3; do
	fio --name=polled --filename=$DEV --direct=1 --bs=4k --ioengine=io_uring --hipri=1 --rw=randread --iodepth=8 --prioclass=$of \
		--number_ios=500 --output=/tmp/polled
	grep -q 'err= 0' /tmp/polled || fail "$(cat /tmp/polled)"
done

echo "$PCI" >$BUS/drivers/nvme-wrr/unbind
rmmod nvme-wrr
expect_dmesg_clean
