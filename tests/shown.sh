# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034  # DEV and Q are for the commands
# Before the commands of a page: a machine as the pages assume it. The modules are installed as make install does it,
# sluice and iolat are there, also as ./sluice, and what is not in the guest is a program that does nothing.
. ./lib.sh

installed=/lib/modules/$(uname -r)/updates/sluice
mkdir -p "$installed"
cp /job/*.ko "$installed"
depmod
# What ends at Ctrl-C alone ends after some seconds here.
if [ -e iolat ]; then
	cp iolat /usr/sbin
fi
iolat() {
	timeout --preserve-status -s INT 3 /usr/sbin/iolat "$@"
}
if [ -e sluice ]; then
	chmod +x sluice lab/host/with.sh
	mv sluice launcher
	cat >sluice <<'END'
#!/bin/sh
case $1 in
explain) exec timeout --preserve-status -s INT 21 /job/launcher "$@" ;;
esac
exec /job/launcher "$@"
END
	chmod +x sluice
	ln -s "$PWD/sluice" /usr/bin/sluice
fi
PATH=/stubs:$PATH
mkdir /stubs
for program in cryptsetup pg_dump psql rsync ssh systemctl updatedb; do
	echo '#!/bin/sh' >/stubs/$program
done
echo 'pgrep -o sleep' >>/stubs/psql # the process of a backend
chmod +x /stubs/*
cp /stubs/updatedb database

# machine: a disk sda with a file system for /srv, /home and /backup, the cgroups of a systemd host, and processes to name.
machine() {
	modprobe sd_mod
	modprobe scsi_debug dev_size_mb=300 delay=1
	for _ in $(seq 500); do
		[ ! -b /dev/sda ] || break
		sleep 0.01
	done
	mkfs.ext4 -q /dev/sda
	mkdir /mnt/data
	mount /dev/sda /mnt/data
	for folder in srv home backup var/lib/postgresql; do
		mkdir -p "/mnt/data/$folder" "/$folder"
		mount --bind "/mnt/data/$folder" "/$folder"
	done
	dd if=/dev/urandom of=/home/file bs=64k count=16 status=none
	mkdir -p "$G"/system.slice/backup.service "$G"/system.slice/database.service /etc/udev/rules.d
	echo postgres:x:105:105::/var/lib/postgresql:/bin/sh >>/etc/passwd
	cp "$(command -v sleep)" /stubs/indexer
	indexer 1000 &
	setpriv --reuid=postgres --clear-groups sleep 1000 &
	DEV=/dev/sda Q=/sys/block/sda/queue
}

# beside LOAD: end the load beside the last command, and have this one run beside the next.
beside() {
	pkill -KILL '^(fio|dd)$'
	while pgrep '^(fio|dd)$' >/dev/null; do sleep 0.1; done
	"$1"
}

# job OPTION…: a fio job without an end.
job() {
	fio --ioengine=libaio --time_based --runtime=600 --output=/dev/null "$@" &
}

# mixed: random reads and writes that fill the queue of a disk.
mixed() {
	job --filename="$DEV" --direct=1 --bs=4k --iodepth=16 --name=reads --rw=randread --numjobs=2 --name=writes --rw=randwrite
	sleep 1
}

# classes: a real-time database beside an idle backup under mq-deadline, for a second.
classes() {
	scheduler mq-deadline
	echo 256 >"$Q/nr_requests"
	job --name=backup --filename="$DEV" --direct=1 --rw=read --bs=128k --iodepth=16 --prioclass=3 --startdelay=1 --runtime=1
	job --name=database --filename="$DEV" --direct=1 --rw=randread --bs=4k --iodepth=16 --prioclass=1 --startdelay=1 --runtime=1
}

# inverted: a real-time writer beside an idle reader under kyber, for a second.
inverted() {
	scheduler kyber
	job --name=reader --filename="$DEV" --direct=1 --rw=randread --bs=4k --iodepth=64 --prioclass=3 --startdelay=1 --runtime=1
	job --name=writer --filename="$DEV" --direct=1 --rw=randwrite --bs=4k --iodepth=64 --prioclass=1 --startdelay=1 --runtime=1
}

# waiting: a database's log and its reader, a scan, and an idle copy.
waiting() {
	file_system
	job --name=log --filename=/tmp/mnt/log --ioengine=psync --rw=write --bs=8k --size=8m --fdatasync=1 --prio=0
	job --name=reader --filename="$DEV" --direct=1 --offset=200m --size=50m --ioengine=psync --rw=randread --bs=4k --prio=0
	job --name=scan --filename="$DEV" --direct=1 --offset=300m --size=50m --ioengine=psync --rw=read --bs=64k --prio=7
	ionice -c 3 dd if=/dev/zero of=/tmp/mnt/copy bs=64k count=10000 status=none &
	sleep 3
}
