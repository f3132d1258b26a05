# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: nvme-wrr
# nvme: wrr=off,fetch_ns=5000
# A controller without weighted round robin: our driver says so and refuses weights. It costs what the stock driver costs within
# a hundredth, in instructions and so in reads a second, one by one and in batches. The drive is faster than the processor,
# which is never idle, so that the clock counts instructions.
. ./lib.sh
. ./nvme.sh

# cost OPTION…: ns for each of 160000 reads.
cost() {
	fio --name=cost --filename="$DEV" --direct=1 --bs=4k --rw=randread --norandommap --thread --group_reporting \
		--output-format=json --output=/tmp/cost "$@"
	python3 -c 'import json; read = json.load(open("/tmp/cost"))["jobs"][0]["read"]; print(1000000 * read["runtime"] // read["total_ios"])'
}

# least FILE: the smaller of two measurements of each kind.
least() {
	awk '{ for (i = 1; i <= NF; i++) if (!least[i] || $i < least[i]) least[i] = $i } END { for (i = 1; i in least; i++) print least[i] }' "$1"
}

for driver in nvme nvme-wrr nvme nvme-wrr; do
	controller $driver
	{
		cost --ioengine=libaio --iodepth=64 --number_ios=160000
		cost --ioengine=io_uring --iodepth=32 --iodepth_batch_submit=16 --iodepth_batch_complete_min=16 --numjobs=2 \
			--number_ios=80000
	} | xargs >>/tmp/$driver
	if [ $driver = nvme-wrr ]; then
		[ "$(cat $WRR/state)" = "off, the controller has none (CAP.AMS)" ] || fail "it says: $(cat $WRR/state)"
		dmesg | grep -q "weighted round robin: off, the controller has none (CAP.AMS)" || fail "the log doesn't say why"
		for weights in "1 1 1" "64 32 8"; do
			if sh -c 'echo "$0" >"$1"' "$weights" $WRR/weights 2>/dev/null; then
				fail "weights are taken that no one acts on"
			fi
		done
		python3 -B -m lab.host.cli wrr weights 1 2 3 >/tmp/said 2>&1 && fail "sluice wrr sets weights"
		grep -q "nvme0 has no weighted round robin: off, the controller has none" /tmp/said || fail "$(cat /tmp/said)"
	fi
	echo "$PCI" >$BUS/drivers/$driver/unbind
	present not
done
cat /tmp/nvme /tmp/nvme-wrr
least /tmp/nvme >/tmp/stock
least /tmp/nvme-wrr >/tmp/ours
paste /tmp/stock /tmp/ours | while read -r stock ours; do
	[ $((100 * ours)) -le $((101 * stock)) ] || fail "a read costs $ours instructions, with the stock driver $stock"
done
expect_dmesg_clean
