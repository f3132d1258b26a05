# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# More processes write than there are accounts. An account is freed when its data is written, deleted or unmounted. A process
# that comes then has an account of its own again.
. ./lib.sh

# writers NUMBER: NUMBER processes, one after the other, each with two files; one of the files is deleted.
writers() {
	perl -e 'for my $i (1 .. $ARGV[0]) {
		my $pid = fork // die;
		if ($pid) { waitpid($pid, 0); die if $?; next }
		for my $name ("a$i", "b$i") {
			open(my $file, ">", "/tmp/mnt/$name") or die;
			syswrite($file, "x" x 4096) == 4096 or die;
		}
		unlink("/tmp/mnt/b$i") or die;
		exit
	}' "$1" || fail "a process can't write"
}

accounts() {
	wc -l </sys/kernel/debug/split/accounts
}

dirty() {
	sed -n 's/.* dirty=//p' /sys/kernel/debug/split/ledger | awk '{ sum += $1 } END { printf "%d\n", sum }'
}

disk ssd
scheduler split-noop
file_system
writers 1500
[ "$(accounts)" -eq 766 ] || fail "1500 processes with dirty data have $(accounts) accounts"
[ "$(dirty)" -eq $((1500 * 4096)) ] || fail "$(dirty) bytes are expected to be written"
umount /tmp/mnt
[ "$(dirty)" -eq 0 ] || fail "with nothing dirty $(dirty) bytes are expected to be written"
mount "$DEV" /tmp/mnt
writers 300
sleep 2
[ "$(accounts)" -le 556 ] || fail "300 processes have dirty data, 256 were met lately, and there are $(accounts) accounts"
dd if=/dev/zero of=/tmp/mnt/last bs=4k count=10 status=none &
wait $!
grep -q " process=$! .*dirty=40960" /sys/kernel/debug/split/ledger || fail "the process that came last: $(tail -1 /sys/kernel/debug/split/ledger)"
umount /tmp/mnt

# The blocks of folders that were removed are still in the cache, with the accounts that made them.
mkfs.ext4 -q -F -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 256m
mount "$DEV" /tmp/mnt
perl -e 'for my $i (1 .. 700) { my $pid = fork // die; if ($pid) { waitpid($pid, 0); next } mkdir("/tmp/mnt/d$i") or die; exit }'
made=$(accounts)
rmdir /tmp/mnt/d*
sync
sleep 1
dd if=/dev/zero of=/tmp/mnt/scarce bs=4k count=1 status=none
sleep 3
[ "$made" -ge 700 ] || fail "700 processes have made a folder, and there are $made accounts"
[ "$(accounts)" -le 556 ] || fail "700 processes have made a folder that is gone, and there are $(accounts) accounts"
umount /tmp/mnt
echo none >"$Q/scheduler"
rmmod split-noop split
expect_dmesg_clean
