# SPDX-License-Identifier: GPL-2.0-only
"""iolat's output, read by the programs that it is made for: jq, csv, Prometheus' parser, and a check of the text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from test_cpq_guest import SOURCE, build

from lab import iolat, job, kernels, modules, passes, toolbox

SCRIPT = r"""
. ./lib.sh
io() {
	fio --name=x --filename="$1" --thread --direct=1 --ioengine=psync --rw=randrw --bs=4k --size=1m --number_ios=40 \
		--fsync=10 --prioclass=2 --prio=5 --output=/dev/null
}
disk ssd
scheduler mq-deadline
for format in text json csv; do
	case $format in text) option= ;; *) option=--$format ;; esac
	watch /out/$format $option --order -d "$DEV"
	io "$DEV"
	end_watch
done
watch /out/rounds --json -d "$DEV" 0.5 4
io "$DEV"
wait $IOLAT
loopback
watch /dev/null --listen 127.0.0.1:19435 --order
io "$DEV"
# A client that sends a byte now and then delays the others by a second at most.
perl -MIO::Socket::INET -e 'my $slow = IO::Socket::INET->new("127.0.0.1:19435") or die;
	for (1 .. 20) { syswrite $slow, "G" or last; select undef, undef, undef, 0.4 }' 2>/dev/null &
sleep 0.2
before=$(cut -d " " -f 1 /proc/uptime)
for page in metrics other; do
	gawk -v page=$page 'BEGIN {
		RS = "\r?\n"; server = "/inet/tcp/0/127.0.0.1/19435"
		printf "GET /%s HTTP/1.0\r\n\r\n", page |& server
		while ((server |& getline line) > 0) print line
	}' >/out/$page
done
echo "$before $(cut -d " " -f 1 /proc/uptime)" >/out/times
end_watch
file_system
echo "+io +memory" >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/shop
watch /out/files --json --files --by cgroup -d "$DEV"
(
	echo 0 >/sys/fs/cgroup/shop/cgroup.procs
	dd if=/dev/zero of=/tmp/mnt/file bs=4k count=23 conv=fsync status=none
	dd if=/tmp/mnt/file of=/dev/null bs=4k count=23 iflag=direct status=none
	yes | head -c 1m | cat >/dev/null
)
for name in 'a"b' 'a,b'; do
	mkdir "/sys/fs/cgroup/$name"
	(
		echo 0 >"/sys/fs/cgroup/$name/cgroup.procs"
		dd if="$DEV" of=/dev/null bs=4k count=1 iflag=direct status=none
	)
done
end_watch
modprobe null_blk nr_devices=0
config=/sys/kernel/config/nullb/nullb0
mkdir $config
for setting in size=64 zoned=1 zone_size=4 zone_nr_conv=2; do
	echo "${setting#*=}" >"$config/${setting%%=*}"
done
echo 1 >$config/power
watch /out/zones --openmetrics --op other -d nullb0
for action in open close finish reset; do
	blkzone $action --offset 32768 --length 8192 /dev/nullb0
done
end_watch
truncate -s 320m /tmp/xfs
modprobe loop
mkfs.xfs -q /tmp/xfs
mkdir /tmp/other
mount -o loop /tmp/xfs /tmp/other
watch /out/xfs --json --files
dd if=/dev/zero of=/tmp/other/file bs=4k count=23 conv=fsync status=none
dd if=/tmp/other/file of=/dev/null bs=4k count=23 iflag=direct status=none
end_watch
"""


def families_of(text: str) -> dict[str, Metric]:
    """The metrics as Prometheus reads them, by name."""
    return {family.name: family for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]


def jq_reads_json_and_finds_every_io(printed: Mapping[str, str]) -> None:
    query = '[.rows[] | select(.op == "read" or .op == "write") | .ios] | add'
    found = toolbox.run(["jq", query], toolbox.Sandbox(root=toolbox.workshop()), stdin=printed["json"].encode())
    assert int(found) == 40


def json_is_consistent_with_itself(printed: Mapping[str, str]) -> None:
    data = json.loads(printed["json"])
    assert data["schema"] == 1 and not any(data["lost"].values())
    for row in data["rows"]:
        stages = row["stages"]
        assert row["ioclass"] == "be" and row["level"] == (5 if row["op"] != "flush" else row["level"])
        for stage in stages.values():
            assert sum(count for _, count in stage["histogram"]) == stage["count"] == row["ios"]
            assert stage["p50"] <= stage["p95"] <= stage["p99"] <= stage["p99.9"] <= stage["max"]
        assert stages["q2c"]["sum"] == sum(stages[name]["sum"] for name in ("q2g", "g2i", "i2d", "d2c"))


def rounds_add_up(printed: Mapping[str, str]) -> None:
    rounds = [json.loads(line) for line in printed["rounds"].splitlines()]
    assert len(rounds) == 4
    assert sum(row["ios"] for one in rounds for row in one["rows"] if row["op"] in ("read", "write")) == 40
    assert all(0.4 < one["seconds"] < 0.9 for one in rounds)


def csv_reads_csv(printed: Mapping[str, str]) -> None:
    lines = list(csv.DictReader(io.StringIO(printed["csv"])))
    assert all(None not in line and None not in line.values() for line in lines)
    assert sum(int(line["count"]) for line in lines if line["stage"] == "q2c" and line["op"] in ("read", "write")) == 40
    assert {line["count"] for line in lines if line["stage"].startswith("lost_")} == {"0"}


def prometheus_reads_metrics(printed: Mapping[str, str]) -> None:
    head, text = printed["metrics"].split("\n\n", 1)
    assert head.startswith("HTTP/1.0 200 OK") and "application/openmetrics-text" in head
    families = families_of(text)
    counts = [
        sample.value
        for sample in families["iolat_stage_seconds"].samples
        if sample.name.endswith("_count")
        and sample.labels["stage"] == "q2c"
        and sample.labels["op"] in ("read", "write")
    ]
    assert sum(counts) == 40
    assert all(sample.value == 0 for sample in families["iolat_lost"].samples)


def another_page_is_not_there(printed: Mapping[str, str]) -> None:
    assert printed["other"].startswith("HTTP/1.0 404")


def a_slow_client_holds_nobody_up(printed: Mapping[str, str]) -> None:
    before, after = map(float, printed["times"].split())
    assert after - before < 2


def text_has_its_columns_and_bars(printed: Mapping[str, str]) -> None:
    text = printed["text"]
    assert re.search(r"^DISK +SCHEDULER +OP +PRIO +STAGE +COUNT +P50 +P95 +P99 +P99\.9 +MAX us$", text, re.MULTILINE)
    assert re.search(r"^simdisk-d0 +mq-deadline +read +be/5 q2c ", text, re.MULTILINE)
    assert re.search(r"^ +[0-9.]+ -> [0-9.]+ +: \d+ +\|\*+$", text, re.MULTILINE)
    assert "nothing lost" in text


def files_are_counted_and_pipes_are_not(printed: Mapping[str, str]) -> None:
    for name, filesystem in (("files", "ext4"), ("xfs", "xfs")):
        files = [file for file in json.loads(printed[name])["files"] if file["filesystem"] == filesystem]
        found = {(file["op"], file["layer"]): file for file in files}
        assert {what: file["count"] for what, file in found.items()} == {
            (op, layer): count
            for op, count in (("read", 23), ("write", 23), ("fsync", 1))
            for layer in ("file-system", "system-call")
        }
        assert all(found[op, "system-call"]["sum"] > found[op, "file-system"]["sum"] for op, _ in found)


def no_two_cgroups_have_one_name(printed: Mapping[str, str]) -> None:
    names = {row["cgroup"] for row in json.loads(printed["files"])["rows"]}
    assert sum(bool(re.fullmatch(r"/a_b-\d+", name)) for name in names) == 2


def writeback_belongs_to_the_cgroup_that_wrote(printed: Mapping[str, str]) -> None:
    rows = json.loads(printed["files"])["rows"]
    assert any(row["cgroup"] == "/shop" and row["op"] == "read" and row["ios"] >= 23 for row in rows)
    assert any(row["cgroup"] == "/shop" and row["op"] == "write" for row in rows)


def operations_on_zones_are_one(printed: Mapping[str, str]) -> None:
    """Two operations of one name would be two samples with the same labels, and Prometheus would refuse all of them."""
    samples = [sample for family in families_of(printed["zones"]).values() for sample in family.samples]
    assert len({(sample.name, *sorted(sample.labels.items())) for sample in samples}) == len(samples)
    counts = [one.value for one in samples if one.name.endswith("seconds_count") and one.labels["stage"] == "q2c"]
    assert counts == [4]


CHECKS = (
    jq_reads_json_and_finds_every_io,
    json_is_consistent_with_itself,
    rounds_add_up,
    csv_reads_csv,
    prometheus_reads_metrics,
    operations_on_zones_are_one,
    another_page_is_not_there,
    a_slow_client_holds_nobody_up,
    text_has_its_columns_and_bars,
    files_are_counted_and_pipes_are_not,
    no_two_cgroups_have_one_name,
    writeback_belongs_to_the_cgroup_that_wrote,
)


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("kernel", [kernels.DEFAULT, pytest.param("6.1", marks=pytest.mark.full)])
def test_what_iolat_prints(kernel: str) -> None:
    """One guest for all checks: a guest costs more than they do."""
    files = modules.needed(modules.build(kernel), ["simdisk"]) | iolat.build()
    outcome = passes.outcome(job.Job(kernel, SCRIPT, files))
    assert outcome.status == 0, outcome.files["stderr"].decode()
    printed = {name: data.decode() for name, data in outcome.files.items()}
    for check in CHECKS:
        check(printed)


# 10,048 processes that each read once, and three others. One reads before, while and after them. Two read for the
# first time when these have ended: one that existed before, and one with a name that isn't UTF-8, which starts a
# moment later. A client asks twice while processes come and rows are given back.
#
# The drive takes one command at a time, and nothing is merged. With more commands the drive may complete one, be
# interrupted, and complete the next; the kernel leaves out that event, and iolat counts it as lost.
EXPORTED = r"""
. ./lib.sh
loopback
disk nvme data=none queue_depth=1
echo 2 >"$Q/nomerges"
watch /dev/null --listen 127.0.0.1:19435 --by process --all -d "$DEV"
python3 - "$DEV" <<'END'
import mmap, os, socket, subprocess, sys, time

disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)

def read(times):
    for place in range(times):
        os.preadv(disk, [page], place * 4096)

def scrape(name):
    with socket.create_connection(("127.0.0.1", 19435), 100) as client, open(f"/out/{name}", "wb") as file:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        while part := client.recv(65536):
            file.write(part)

def other(name):
    here, there = socket.socketpair()
    child = os.fork()
    if not child:
        with open("/proc/self/comm", "wb") as comm:
            comm.write(name)
        there.recv(1)
        read(7)
        there.send(b"x")
        time.sleep(1000)
    return child, here

def let_read(process):
    process[1].send(b"x")
    process[1].recv(1)

def storm(processes, name):
    coming = subprocess.Popen(["./short_lived", sys.argv[1], processes])
    time.sleep(0.3)
    scrape(name)
    assert coming.wait() == 0

read(5)
early = other(b"caf\xc3\xa9")
time.sleep(1)
storm("5056", "first")
read(5)
storm("4992", "second")
let_read(early)
read(5)
time.sleep(0.2)
late = other(b"\xff\xc3\"\x80\xed\xa0\x80")
let_read(late)
scrape("last")
with open("/out/live", "w") as file:
    print(os.getpid(), early[0], late[0], file=file)
for child, _ in early, late:
    os.kill(child, 9)
END
end_watch
"""


def reads_of(families: Mapping[str, Metric]) -> dict[str, float]:
    """Reads by process."""
    return {
        sample.labels["process"]: sample.value
        for sample in families["iolat_stage_seconds"].samples
        if sample.name.endswith("_count") and sample.labels["stage"] == "q2c"
    }


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("kernel", [kernels.DEFAULT, pytest.param("6.1", marks=pytest.mark.full)])
def test_the_exporter_outlasts_its_rows(kernel: str, tmp_path: Path) -> None:
    """No live process loses its row to dead ones, no I/O is lost; all is UTF-8."""
    files = modules.needed(modules.build(kernel), ["simdisk"]) | iolat.build() | {SOURCE.stem: build(tmp_path)}
    outcome = passes.outcome(job.Job(kernel, EXPORTED, files))
    said = (outcome.files["stdout"] + outcome.files["stderr"]).decode()
    assert outcome.status == 0, said
    answers = [outcome.files[name].decode().split("\r\n\r\n", 1)[1] for name in ("first", "second", "last")]
    parsed = [families_of(text) for text in answers]
    reads = [reads_of(families) for families in parsed]
    live = [int(word) for word in outcome.files["live"].split()]
    by_number = [
        {int(name.rpartition("-")[2]): count for name, count in one.items() if name != "others"} for one in reads
    ]
    assert [numbers.get(live[0]) for numbers in by_number] == [5, 10, 15]
    assert [by_number[-1].get(number) for number in live[1:]] == [7, 7]
    assert {f"caf\u00e9-{live[1]}", f"_______-{live[2]}"} <= set(reads[-1])
    # The first two were answered while processes came.
    first, second, last = (sum(one.values()) for one in reads)
    assert 5 < first < 5056 < second < last == 10_048 + 15 + 14
    assert all(sample.value == 0 for sample in parsed[-1]["iolat_lost"].samples)
    assert parsed[-1]["iolat_followed"].samples[0].value == last


# A table of 64 processes, so that an answer is longer than a socket's buffer. Six clients ask and take nothing, six
# send half a request. Other clients ask meanwhile: one, and twenty at once.
CROWDED = r"""
. ./lib.sh
loopback
disk nvme data=none
watch /dev/null --listen 127.0.0.1:19435 --by process --all -d "$DEV"
./short_lived "$DEV" 64
python3 - <<'END'
import socket, time
from concurrent.futures import ThreadPoolExecutor

def connect(request, receive=None):
    client = socket.socket()
    if receive:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    client.settimeout(100)
    client.connect(("127.0.0.1", 19435))
    client.sendall(request)
    return client

def scrape(_=None):
    text = b""
    begin = time.monotonic()
    with connect(b"GET /metrics HTTP/1.0\r\n\r\n") as client:
        while part := client.recv(65536):
            text += part
    assert text.startswith(b"HTTP/1.0 200 OK") and text.endswith(b"# EOF\n"), text[-100:]
    return time.monotonic() - begin

alone = scrape()
silent = [connect(b"GET /metrics HTTP/1.0\r\n\r\n", receive=2048) for _ in range(6)]
halves = [connect(b"GET /metr") for _ in range(6)]
time.sleep(0.1)
beside = scrape()
begin = time.monotonic()
with ThreadPoolExecutor(20) as pool:
    list(pool.map(scrape, range(20)))
crowd = time.monotonic() - begin
print(f"alone {alone:.3f} s, beside twelve slow clients {beside:.3f} s, twenty at once {crowd:.3f} s")
with open("/out/figures", "w") as file:
    print(alone, beside, crowd, file=file)
END
end_watch
"""


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("kernel", [kernels.DEFAULT, pytest.param("6.1", marks=pytest.mark.full)])
def test_slow_clients_cost_others_a_second_in_all(kernel: str, tmp_path: Path) -> None:
    """The twelve slow clients together cost a second, and each of the twenty that ask at once has its answer."""
    files = modules.needed(modules.build(kernel), ["simdisk"]) | iolat.build() | {SOURCE.stem: build(tmp_path)}
    outcome = passes.outcome(job.Job(kernel, CROWDED, files))
    said = (outcome.files["stdout"] + outcome.files["stderr"]).decode()
    assert outcome.status == 0, said
    alone, beside, crowd = map(float, outcome.files["figures"].split())
    # The answers to the silent clients are made first, and that time is iolat's own.
    assert beside < 7 * alone + 1.1, said
    assert crowd < 20 * alone + 1.1, said
