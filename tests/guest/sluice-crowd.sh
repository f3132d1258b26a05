# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: sluice
# A hundred writers of one rank with too much dirty data take no share from other ranks. Best effort 0 commits as fast as
# without them, and lower ranks make progress. A process whose priority changes while it writes is held by the new one.
. ./lib.sh

# bytes FILE…: the sum of the bytes in these files.
bytes() {
	stat -c %s "$@" | awk '{ sum += $1 } END { print sum + 0 }'
}

# commits SECONDS: the number of times that best effort 0 makes 8 KiB durable in that time.
commits() {
	fio --name=log --directory=/tmp/mnt --ioengine=psync --rw=write --bs=8k --size=8m --fdatasync=1 --prio=0 --time_based=1 \
		--runtime="$1" --output-format=terse --output=/tmp/fio.terse >/dev/null || fail "the log fails"
	awk -F';' '{ print int($47 * 1024 / 8192) }' /tmp/fio.terse
}

disk ssd
scheduler sluice
mkfs.ext4 -q -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 4g
mkdir /tmp/mnt
mount "$DEV" /tmp/mnt
alone=$(commits 3)

for number in $(seq 100); do
	dd if=/dev/zero of="/tmp/mnt/crowd$number" bs=64k status=none &
	crowd="${crowd-} $!"
done
ionice -c 2 -n 7 dd if=/dev/zero of=/tmp/mnt/low bs=64k status=none &
low=$!
ionice -c 3 dd if=/dev/zero of=/tmp/mnt/idle bs=64k status=none &
idle=$!
sleep 5
before="$(bytes /tmp/mnt/crowd*) $(bytes /tmp/mnt/low) $(bytes /tmp/mnt/idle)"
beside=$(commits 10)
after="$(bytes /tmp/mnt/crowd*) $(bytes /tmp/mnt/low) $(bytes /tmp/mnt/idle)"
echo "commits: $((beside / 10)) a second, alone $((alone / 3)); bytes of the crowd, best effort 7, idle: $before, then $after"
[ $((beside * 3 * 100)) -ge $((alone * 10 * 70)) ] || fail "beside a hundred writers $beside commits in 10 s, alone $alone in 3"
# shellcheck disable=SC2086
set -- $before $after
[ "$4" -gt "$1" ] || fail "a hundred writers of best effort 4 stand still"
[ "$5" -gt "$2" ] || fail "best effort 7 stands still beside a hundred writers of best effort 4"
[ "$6" -gt "$3" ] || fail "IDLE stands still beside a hundred writers of best effort 4"

# A process that becomes the most urgent is no longer held as an idle one.
ionice -c 2 -n 0 -p $idle
before=$(bytes /tmp/mnt/idle)
sleep 3
raised=$(($(bytes /tmp/mnt/idle) - before))
echo "raised: $raised bytes in 3 s"
[ "$raised" -ge 5000000 ] || fail "raised to best effort 0 a writer has $raised bytes in 3 s"
# shellcheck disable=SC2086
kill -KILL $crowd $low $idle
wait
expect_dmesg_clean
