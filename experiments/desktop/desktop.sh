# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# A desktop beside a neighbour, none of which has a priority. Its programs are one that starts again and again, an editor
# that saves each second, and a video. Every file that is read has its blocks on the disk, and none of it in memory.
large_files 3 5g
# f0: the program's files. f1: the video. f2: what the neighbour reads.

cat >/tmp/desktop.py <<'END'
import mmap, os, random, sys, time

PAGE = 4096
what, runtime, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
chance = random.Random(f"{what} {seed}")
end = time.monotonic() + runtime


def say(**readings):
    with open("/tmp/readings", "a") as out:
        out.write("".join(f"{name} {value}\n" for name, value in readings.items()))


def start():
    """The start of a terminal of GNOME, as traced: 789 reads that it waits for, 340 of them at random places, 12.3 MiB in
    all, and 1,992 pages that it asks for and does not wait for. 0.2 ms of the CPU between two reads."""
    file = os.open("/tmp/mnt/f0", os.O_RDONLY)
    begin, place = time.monotonic(), 0
    for number in range(789):
        if number * 340 // 789 != (number + 1) * 340 // 789:
            place = chance.randrange(0, 1 << 32, PAGE)
        for _ in range(2 + (number % 2)):
            os.posix_fadvise(file, chance.randrange(0, 1 << 32, PAGE), PAGE, os.POSIX_FADV_WILLNEED)
        place += os.preadv(file, [memory[: PAGE * 4]], place)
        time.sleep(0.0002)
    took = time.monotonic() - begin
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
    return took


def program():
    """It starts, is closed, and starts again after half a second."""
    times = []
    while time.monotonic() < end:
        times.append(start())
        time.sleep(0.5)
    say(start=sum(times) / len(times), **{"start-worst": max(times)})


def video():
    """25 frames a second, 2 MB/s: the worst delay of a frame, in s. The player reads a frame when it has to show it."""
    file = os.open("/tmp/mnt/f1", os.O_RDONLY)
    due, late, frames = time.monotonic(), 0, 0
    while due < end:
        os.read(file, 80_000)
        late = max(late, time.monotonic() - due)
        due, frames = due + 0.04, frames + 1
        time.sleep(max(0, due - time.monotonic()))
    say(frames=frames, **{"frame-late": late})


def build():
    """A compiler: reads a source of some KiB, computes for 10 ms, and writes an object of up to 128 KiB."""
    file, done = os.open("/tmp/mnt/f2", os.O_RDONLY), 0
    while time.monotonic() < end:
        os.pread(file, chance.randrange(PAGE, 8 * PAGE), chance.randrange(0, 1 << 32, PAGE))
        time.sleep(0.01)
        with open(f"/tmp/mnt/object-{what}-{done % 500}", "wb") as out:
            out.write(bytes(chance.randrange(PAGE, 32 * PAGE)))
        done += 1
    say(built=done / runtime)


memory = memoryview(mmap.mmap(-1, 16 * PAGE))
{"program": program, "video": video}.get(what, build)()
END

desktop() {
	python3 /tmp/desktop.py program "$RUNTIME" "$SEED" &
	python3 /tmp/desktop.py video "$RUNTIME" "$SEED" &
	# An editor: it writes 64 KiB and makes them durable.
	fio --name=editor --filename=/tmp/mnt/text --size=64m --rw=write --bs=64k --ioengine=psync --fsync=1 --thinktime=1s \
		--thinktime_blocks=1 --time_based=1 --runtime="$RUNTIME" --invalidate=0 --randseed="$SEED" --fallocate=none \
		--lat_percentiles=1 --clat_percentiles=1 --output-format=json+ --output=/out/fio-editor.json &
}

copy() {
	cp /tmp/mnt/f2 /tmp/mnt/copy &
}

build() {
	for compiler in 1 2 3 4; do
		python3 /tmp/desktop.py $compiler "$1" "$SEED" &
	done
}

measure() {
	: >/tmp/readings
	copied=0
	if [ -n "$NEIGHBOUR" ]; then
		"$NEIGHBOUR" "$((RUNTIME + RAMP))"
		neighbour=$!
		sleep "$RAMP"
		[ "$NEIGHBOUR" != copy ] || copied=$(stat -c %s /tmp/mnt/copy)
	fi
	if [ -n "$DESKTOP" ]; then
		desktop
	fi
	sleep "$RUNTIME"
	if [ "$NEIGHBOUR" = copy ]; then
		echo "copied $((($(stat -c %s /tmp/mnt/copy) - copied) / RUNTIME))" >>/tmp/readings
		kill "$neighbour"
	fi
	wait
	# The compilers' rates add up.
	awk '{ sum[$1] += $2 } END { for (name in sum) print name, sum[name] }' /tmp/readings >/out/readings
}

watched measure
