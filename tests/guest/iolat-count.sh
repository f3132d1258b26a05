# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: mq-prio
# Of 23 I/Os iolat sees 23, in every stage and with every scheduler, and the stages of each add up to its total. --pid selects a
# process with all of its threads, --tid one thread.
. ./lib.sh

disk ssd
for scheduler in none mq-deadline kyber bfq mq-prio; do
	scheduler $scheduler
	watch /tmp/csv --csv -d "$DEV" --op read --class be
	fio --name=x --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=4 --rw=randread --bs=4k \
		--size=16m --prioclass=2 --prio=3 --number_ios=23 --output=/dev/null
	end_watch
	awk -F, -v scheduler=$scheduler '
		$8 ~ /^lost_/ && $9 > 0 { print "lost: " $0; bad = 1 }
		NR == 1 || $8 ~ /^lost_/ { next }
		$3 != scheduler || $4 != "read" || $5 != "be" || $6 != 3 || $9 != 23 { print "wrong: " $0; bad = 1 }
		{ sum[$8] = $10; stages++ }
		END {
			if (sum["q2d"] != sum["q2g"] + sum["g2i"] + sum["i2d"]) { print "q2d is no sum"; bad = 1 }
			if (sum["q2c"] != sum["q2d"] + sum["d2c"] || !sum["q2c"]) { print "q2c is no sum"; bad = 1 }
			exit bad || stages != 6
		}' /tmp/csv || fail "$scheduler: $(cat /tmp/csv)"
done

# fio's main thread leaves the reads to another thread.
for option in --pid --tid; do
	rm -f /tmp/go
	sh -c 'until [ -e /tmp/go ]; do sleep 0.05; done
		exec fio --name=x --thread --filename="$0" --direct=1 --rw=randread --bs=4k --number_ios=23 \
			--output=/dev/null' "$DEV" &
	fio=$!
	watch /tmp/csv --csv -d "$DEV" --op read $option $fio
	touch /tmp/go
	wait $fio
	end_watch
	count=$(awk -F, '$8 == "q2c" { sum += $9 } END { print sum + 0 }' /tmp/csv)
	case $option in --pid) wanted=23 ;; *) wanted=0 ;; esac
	[ "$count" = $wanted ] || fail "$option: $count reads, not $wanted"
done
