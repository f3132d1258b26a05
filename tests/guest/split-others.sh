# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-deadline
# Many writers are held whose own files have no dirty data, while others' files have. Those files are written back for one
# writer at a time: each such writeback looks at all the file system's dirty files.
. ./lib.sh

tracing=/sys/kernel/tracing

# threads.py THREADS FIRST [fsync]: each thread writes to a file of its own, and makes that durable.
cat >/tmp/threads.py <<'END'
import os, sys, threading

def work(file: int) -> None:
    while True:
        os.pwrite(file, bytes(65536), 0)
        if len(sys.argv) > 3:
            os.fsync(file)

threading.stack_size(65536)
# By default each of a thousand threads that wait for the interpreter wakes up every 5 ms to ask for it, and none makes
# progress.
sys.setswitchinterval(1)
for number in range(int(sys.argv[1])):
    file = os.open(f"/tmp/mnt/{number + int(sys.argv[2])}", os.O_WRONLY)
    threading.Thread(target=work, args=(file,)).start()
END

disk ssd
scheduler split-deadline
file_system
weights
(cd /tmp/mnt && seq 0 400 | xargs touch)
group a
group b
echo 0 >"$Q/iosched/own_writeback"
echo fsync=1000 >"$G/a/io.sluice.deadline"

echo 0 >$tracing/tracing_on
echo writeback_inodes_sb_nr >$tracing/set_ftrace_filter
echo function_graph >$tracing/current_tracer
as a python3 /tmp/threads.py 1 400 fsync &
as b ionice -c 3 python3 /tmp/threads.py 400 0 &
sleep 3
echo 1 >$tracing/tracing_on
sleep 3
echo 0 >$tracing/tracing_on
grep held= /sys/kernel/debug/split/devices
cp $tracing/trace /out/trace
# In the trace a call that contains other calls is shown with braces.
most=$(awk '/ writeback_inodes_sb_nr\(\);/ { calls++ } / writeback_inodes_sb_nr\(\) \{/ { calls++; if (++now > most) most = now }
	/ \}/ { now-- } END { print calls + 0, most + 0 }' /out/trace)
echo "others written back: $most"
pkill -KILL python3
wait
[ "${most% *}" -gt 3 ] || fail "others are hardly written back: $most"
[ "${most#* }" -le 1 ] || fail "others are written back for ${most#* } calls at once"
