# SPDX-License-Identifier: GPL-2.0-only
"""CPQ's accounts under a storm of short-lived processes: they leave no memory behind, and no account."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_guest import complaints

from lab import job, kernels, modules, passes, toolbox

SOURCE = Path(__file__).parent / "short_lived.c"
# Memory that a first storm of processes leaves in the kernel's caches isn't counted; later storms must not add to it.
SCRIPT = """
. ./lib.sh

accounts=/sys/kernel/debug/block/simdisk-d0/sched/accounts

# memory: KiB that the kernel's objects take.
memory() {
	echo 3 >/proc/sys/vm/drop_caches
	sleep 0.5
	awk '$1 == "SUnreclaim:" || $1 == "VmallocUsed:" || $1 == "Percpu:" || $1 == "KernelStack:" { sum += $2 }
		END { print sum }' /proc/meminfo
}

# reads: that were asked for, also those that were merged with others.
reads() {
	awk '{ print $1 + $2 }' "/sys/block/${DEV#/dev/}/stat"
}

disk nvme data=none
scheduler cpq
echo 32 >"$Q/nr_requests"
./short_lived "$DEV" 6400 || fail "a process could not read"
before=$(memory)
served=$(reads)
./short_lived "$DEV" PROCESSES || fail "a process could not read"
after=$(memory)
served=$(($(reads) - served))
cat /proc/uptime
echo "$served reads; $before KiB before, $after KiB after"
[ $served = PROCESSES ] || fail "$served reads, not PROCESSES"
[ "$after" -le $((before + 256)) ] || fail "$((after - before)) KiB are gone"
[ "$(cat $accounts)" = "tags=32 used=0 waiting=0" ] || fail "accounts are held: $(cat $accounts)"
# A number that was used before: neither its end nor its account is the new process's.
for _ in 1 2 3; do
	echo 30000 >/proc/sys/kernel/ns_last_pid
	./short_lived "$DEV" 640 || fail "a process with an old number could not read"
done
[ "$(cat $accounts)" = "tags=32 used=0 waiting=0" ] || fail "accounts are held: $(cat $accounts)"
scheduler none
rmmod cpq
"""


def build(folder: Path) -> bytes:
    """The program, static."""
    box = toolbox.Sandbox(ro={"/tmp/in": SOURCE.parent}, rw={"/tmp/out": folder})
    name = SOURCE.stem
    toolbox.run(["gcc-14", "-O2", "-Wall", "-Werror", "-static", "-o", f"/tmp/out/{name}", f"/tmp/in/{name}.c"], box)
    return (folder / name).read_bytes()


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("kernel", "processes"),
    [
        pytest.param(kernels.DEFAULT, 6_400, id=kernels.DEFAULT),
        pytest.param("6.1", 12_800, id="6.1", marks=pytest.mark.full),
        pytest.param(kernels.DEFAULT, 102_400, id="many", marks=pytest.mark.full),
    ],
)
def test_short_lived_processes_leave_nothing(tmp_path: Path, kernel: str, processes: int) -> None:
    """Each process did its read, and the memory and accounts are as before."""
    files = {**modules.needed(modules.build(kernel), ["simdisk", "cpq"]), SOURCE.stem: build(tmp_path)}
    outcome = passes.outcome(job.Job(kernel, SCRIPT.replace("PROCESSES", str(processes)), files, cpu_limit_s=5400))
    said = outcome.files["stdout"] + outcome.files["stderr"]
    assert outcome.status == 0, f"{said.decode()}\n{outcome.dmesg[-4000:]}"
    assert not complaints(outcome.dmesg), outcome.dmesg[-8000:]
