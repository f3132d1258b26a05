# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: nvme-wrr
# nvme: wrr=on,fetch_ns=0
# A drive that fetches all commands at once has weights without effect: sluice wrr probe says so.
. ./lib.sh
. ./nvme.sh

controller
python3 -B -m lab.host.cli wrr probe --seconds 1 >/tmp/said
cat /tmp/said
grep -q "nvme0 does not act on its weights" /tmp/said || fail "the probe found something else"
python3 -B -m lab.host.cli wrr probe --seconds 1 --json | python3 -c '
import json, sys
found = json.load(sys.stdin)
assert [trial["weights"] for trial in found["trials"]] == [[1, 1, 1], [64, 32, 8], [8, 32, 64], [1, 1, 1]], found
assert all(abs(sum(trial["shares"].values()) - 1) < 1e-9 and trial["iops"] > 0 for trial in found["trials"]), found
'
expect_dmesg_clean
