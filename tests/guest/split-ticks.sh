# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: afq split-token split-deadline
# A policy's tick, which runs with interrupts off, takes no longer when twice as many calls are held.
. ./lib.sh

tracing=/sys/kernel/tracing
case $SCHEDULER in
afq) tick=afq_tick ;;
split-token) tick=token_tick ;;
*) tick=dl_tick ;;
esac

# threads.py THREADS FIRST [fsync]: each thread writes to a file of its own, and makes that durable; or else writes one
# page after another, since a write to a dirty page isn't held.
cat >/tmp/threads.py <<'END'
import itertools, os, resource, sys, threading

def work(file: int) -> None:
    for page in itertools.cycle(range(16)):
        if len(sys.argv) > 3:
            os.pwrite(file, bytes(65536), 0)
            os.fsync(file)
        else:
            os.pwrite(file, bytes(4096), page * 4096)

threading.stack_size(65536)
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
# By default each of a thousand threads that wait for the interpreter wakes up every 5 ms to ask for it, and none makes
# progress.
sys.setswitchinterval(1)
for number in range(int(sys.argv[1])):
    file = os.open(f"/tmp/mnt/{number + int(sys.argv[2])}", os.O_WRONLY)
    threading.Thread(target=work, args=(file,)).start()
END

disk ssd
scheduler "$SCHEDULER"
# Calls that wait for the journal aren't held: a write to these files changes nothing that the journal has.
file_system -o lazytime
weights
# Making a file is held too.
for file in $(seq 0 1040); do
	fallocate -l 65536 "/tmp/mnt/$file"
done
group a
group b
durable=fsync
case $SCHEDULER in
split-token) echo 10000 >"$G/b/io.sluice.rate" ;;
split-deadline)
	echo 0 >"$Q/iosched/own_writeback"
	echo fsync=1000 >"$G/a/io.sluice.deadline"
	durable= # the held calls are writes
	;;
esac

# usual: the median of the ticks of a second, in ns.
usual() {
	echo >$tracing/trace
	echo 1 >$tracing/tracing_on
	sleep 1
	echo 0 >$tracing/tracing_on
	sed -n 's/^[^|]*[^0-9|]\([0-9]*\)\.\([0-9]*\) us .*/\1\2/p' $tracing/trace | sort -n >/tmp/ticks
	[ "$(wc -l </tmp/ticks)" -gt 10 ] || fail "there are hardly any ticks: $(cat $tracing/trace)"
	sed -n "$(($(wc -l </tmp/ticks) / 2))p" /tmp/ticks
}

echo 0 >$tracing/tracing_on
echo $tick >$tracing/set_ftrace_filter
echo function_graph >$tracing/current_tracer
for threads in 520 1040; do
	as a python3 /tmp/threads.py 1 1040 fsync &
	as b ionice -c 3 python3 /tmp/threads.py $threads 0 $durable &
	for _ in $(seq 600); do
		held=$(grep -c . /sys/kernel/debug/split/held) || true
		[ "$held" -lt $((threads * 9 / 10)) ] || break
		sleep 0.1
	done
	[ "$held" -ge $((threads * 9 / 10)) ] || fail "of $threads only $held are held"
	ticks="${ticks-} $(usual)"
	pkill -KILL python3
	wait
done
echo "ns:$ticks"
# shellcheck disable=SC2086
set -- $ticks
[ $(($2 * 10)) -le $(($1 * 13)) ] || fail "a tick takes $2 ns with 1040 held, $1 with 520"
