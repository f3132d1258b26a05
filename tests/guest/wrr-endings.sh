# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: nvme-wrr
# nvme: wrr=on,fetch_ns=20000
# cpus: 2
# limit: 3600
# dmesg: I/O error, dev nvme|Buffer I/O error on dev nvme
# Under load of all classes, a hundred times each (ten on 6.1): the controller is reset, which no process notices; it is taken from the
# driver, and it is pulled out. After that all requests end.
. ./lib.sh
. ./nvme.sh

TIMES=100
case $(uname -r) in 6.1.*) TIMES=10 ;; esac

loads() {
	load_of urgent 1 0 16
	load_of high 2 0 64 --ioengine=io_uring --iodepth_batch_submit=8
	load_of medium 2 4 64
	load_of low 3 0 64 --cpus_allowed=1
}

# ended: all requests have ended. Processes that are still running are killed, and a process ends only when all of its requests
# have.
ended() {
	sleep 0.2
	pkill -KILL fio || true
	for _ in $(seq 400); do
		if ! pgrep fio >/dev/null; then
			wait
			return
		fi
		sleep 0.05
	done
	fail "they wait for ever: $(ps -C fio -o pid,stat,wchan:30,args)"
}

controller
loads
for turn in $(seq $TIMES); do
	sleep 0.0"$((turn % 10))"
	echo 1 >$CTRL/reset_controller
done
sleep 0.2
[ "$(pgrep -c fio)" -ge 8 ] || fail "a load has ended: $(grep -h error /tmp/*.json)"
enough
for name in urgent high medium low; do
	python3 - "/tmp/$name.json" <<-'END' || fail "$name"
		import json, sys
		text = open(sys.argv[1]).read()
		(job,) = json.loads(text[text.index("{") :])["jobs"]
		assert job["error"] == 0 and job["read"]["total_ios"] > 1000, job
	END
done
echo "resets: $TIMES"

for turn in $(seq $TIMES); do
	loads
	sleep 0.1"$((turn % 10))"
	echo "$PCI" >$BUS/drivers/nvme-wrr/unbind
	ended
	present not
	controller
done
echo "unbound: $TIMES"

for turn in $(seq $TIMES); do
	loads
	sleep 0.1
	vendor 0xc1 "$((turn % 10 + 2))" 500
	sleep 0.02
	echo 1 >$BUS/devices/"$PCI"/remove
	ended
	present not
	sleep 0.5
	echo 1 >$BUS/rescan
	controller
done
echo "pulled out: $TIMES"

echo "$PCI" >$BUS/drivers/nvme-wrr/unbind
rmmod nvme-wrr
expect_dmesg_clean 'I/O error, dev nvme|Buffer I/O error on dev nvme'
