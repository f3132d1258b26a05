# show FOLDER FILE...: what parameters and settings say of themselves, a line `name value` each
show() (
	cd "$1"
	shift
	for file; do
		[ ! -f "$file" ] || [ "$file" = stats ] || echo "$file $(cat "$file")"
	done
)
. ./lib.sh
disk ssd data=none slowdown=4
show /sys/kernel/config/simdisk/d0 $(ls /sys/kernel/config/simdisk/d0) >/out/device
scheduler mq-prio
echo 32 >"$Q/max_sectors_kb" || fail 'the kernel refuses max_sectors_kb=32'
echo 7 >"$Q/iosched/low_share" || fail 'the kernel refuses low_share=7'
show "$Q" nr_requests max_sectors_kb $(cd "$Q" && echo iosched/*) >/out/settings
uname -r >/out/kernel
sed -n 's/^model name.*: //p' /proc/cpuinfo >/out/cpu
export BACKUP=read
export BACKUP_DEPTH=16
export HIGH_CLASS=1
export HIGH_LEVEL=1
export LOW_CLASS=3
export LOW_LEVEL=7
export RUNTIME=10
export RUNTIME_LATE=9800ms
export RUNTIME_SETTLED=9000ms
export SEED=2
export DEVICE="$DEV"
watched fio --output-format=json+ --output=/out/fio.json --section=database --section=backup mix.fio
