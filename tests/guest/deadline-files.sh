# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2016
# modules: split-deadline
# debug
# /dev/sluice gives an open file a deadline of its own, for processes with the right, while /dev/sluice is open. An invalid
# deadline is refused, and nothing changes.
. ./lib.sh

trace=/sys/kernel/tracing

# ask: a perl module. deadline(S, F, US) returns the error, 0 if it is accepted; opened() opens a new /dev/sluice; durable(F)
# writes to the file and makes it durable.
cat >/tmp/Ask.pm <<'end'
use IO::Handle;
sub opened { open(my $s, "+<", "/dev/sluice") or die "$!"; $s }
sub deadline { ioctl($_[0], 0x400cdb01, pack("lLL", $_[1] =~ /^-?[0-9]+$/ ? $_[1] : fileno($_[1]), 0, $_[2])) ? 0 : $! + 0 }
sub durable { syswrite($_[0], "x" x 4096) == 4096 or die; $_[0]->sync or die "$!" }
sub expect { $_[1] == $_[2] or die "$_[0]: error $_[1], not $_[2]\n" }
open(LOG, ">", "/tmp/mnt/log") or die;
open(TABLE, ">", "/tmp/mnt/table") or die;
1;
end

# deadlines: the deadlines of the fsyncs since the last call, in ms.
deadlines() {
	sed -n 's/.* deadline=\([0-9]*\).*/\1/p' $trace/trace | awk '{ printf "%s%g", n++ ? " " : "", $1 / 1000000 }'
	echo >$trace/trace
}

# expect_deadlines TEXT PERL [COMMAND…]: run perl, by COMMAND; its fsyncs have the deadlines TEXT.
expect_deadlines() {
	want=$1 code=$2
	shift 2
	"$@" perl -I/tmp -e "use Ask; $code" || fail "$code"
	got=$(deadlines)
	[ "$got" = "$want" ] || fail "$code: deadlines are $got, not $want"
}

disk ssd
scheduler split-deadline
file_system
echo 1 >$trace/events/sluice/deadline_fsync/enable
[ "$(stat -c %a /dev/sluice)" = 666 ] || fail "mode $(stat -c %a /dev/sluice)"

# A file's deadline does not affect another file; it ends when /dev/sluice is closed, and can be changed before.
expect_deadlines "100 5 100 7 100" 'durable(*LOG); my $s = opened(); expect("5 ms", deadline($s, *LOG, 5000), 0);
	durable(*LOG); durable(*TABLE); expect("7 ms", deadline($s, *LOG, 7000), 0); durable(*LOG); undef $s; durable(*LOG)'
# Another descriptor of the same open file has the deadline too, another opening of the file doesn't.
expect_deadlines "5 100" 'my $s = opened(); deadline($s, *LOG, 5000); open(DUP, ">&", *LOG) or die; durable(*DUP);
	open(OTHER, ">", "/tmp/mnt/log") or die; durable(*OTHER)'
# The deadline moves to another file.
expect_deadlines "100 5" 'my $s = opened(); deadline($s, *LOG, 3000); expect("another", deadline($s, *TABLE, 5000), 0);
	durable(*LOG); durable(*TABLE)'
# O_SYNC writes have the deadline too.
expect_deadlines "5" 'use Fcntl; sysopen(SYNC, "/tmp/mnt/sync", O_WRONLY | O_CREAT | O_SYNC) or die; my $s = opened();
	deadline($s, *SYNC, 5000); syswrite(SYNC, "x" x 4096) == 4096 or die'

# EBADF 9, EBUSY 16, EINVAL 22, ENOTTY 25, ERANGE 34.
expect_deadlines "5 100" 'my $s = opened(); my $t = opened(); deadline($s, *LOG, 5000);
	for (0, 99, 60000001, 4294967295) { expect($_, deadline($s, *LOG, $_), 34) }
	expect("no file", deadline($s, -1, 5000), 9);
	expect("not open", deadline($s, 999, 5000), 9);
	opendir(DIR, "/tmp/mnt"); open(READ, "<", "/tmp/mnt/log") or die;
	expect("read only", deadline($s, *READ, 5000), 22);
	expect("a device", deadline($s, $s, 5000), 22);
	open(NULL, ">", "/dev/null") or die;
	expect("another device", deadline($s, *NULL, 5000), 22);
	system("mkfifo /tmp/mnt/fifo"); open(FIFO, "+<", "/tmp/mnt/fifo") or die;
	expect("no regular file", deadline($s, *FIFO, 5000), 22);
	open(TMPFS, ">", "/dev/shm/x") or die;
	expect("no disk", deadline($s, *TMPFS, 5000), 22);
	expect("two", deadline($t, *LOG, 3000), 16);
	my $arg = "x" x 16; for (0x400cdb02, 0x4010db01) { expect($_, (ioctl($s, $_, $arg) ? 0 : $! + 0), 25) }
	durable(*LOG); durable(*TABLE)'

# Without CAP_SYS_NICE a process can lengthen a deadline, but not shorten it.
cat >/tmp/as_nobody <<'end'
#!/bin/sh
exec setpriv --reuid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
end
chmod +x /tmp/as_nobody
chmod 777 /tmp/mnt
rm /tmp/mnt/log /tmp/mnt/table /tmp/mnt/sync /tmp/mnt/fifo
expect_deadlines "100 3000" 'my $s = opened(); expect("less", deadline($s, *LOG, 5000), 0); durable(*LOG);
	expect("more", deadline($s, *LOG, 3000000), 0); durable(*LOG)' /tmp/as_nobody
# A process that receives the file is not slowed down by that.
expect_deadlines "3000 100" 'my $s = opened(); $) = $> = 65534; my $t = opened(); expect("own", deadline($t, *LOG, 3000000), 0);
	durable(*LOG); $> = 0; durable(*LOG)'

# A thousand at a time, while others are opened and closed, and their processes are killed.
for _ in 1 2 3 4; do
	perl -I/tmp -e 'use Ask; while (1) { my @kept;
		for (1 .. 250) { open(my $f, ">", "/tmp/mnt/$$.$_") or die; my $s = opened();
			expect("one of many", deadline($s, $f, 5000), 0); $_ % 50 or durable($f); push @kept, $s } }' &
done
sleep 5
[ "$(pgrep -c perl)" = 4 ] || fail "of four are left $(pgrep -c perl)"
# shellcheck disable=SC2046
kill -KILL $(pgrep perl)
wait || true
deadlines | tr ' ' '\n' | sort -u | grep -qx 5 || fail "none of many has its deadline"

# /dev/sluice keeps the file open, and nothing else.
perl -I/tmp -e 'use Ask; our $s = opened(); deadline($s, *LOG, 5000); close(LOG); close(TABLE); open(R, ">", "/tmp/ready");
	sleep 600' &
until [ -e /tmp/ready ]; do
	sleep 0.01
done
if umount /tmp/mnt 2>/dev/null; then
	fail "a file that has a deadline is unmounted"
fi
if rmmod sluice-cause 2>/dev/null; then
	fail "the module goes while /dev/sluice is open"
fi
kill $!
wait || true
umount /tmp/mnt
scheduler none
rmmod split-deadline split sluice-cause
[ ! -e /dev/sluice ] || fail "/dev/sluice stays"
