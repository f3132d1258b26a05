. ./lib.sh
disk ssd data=none
for file in /sys/kernel/config/simdisk/d0/*; do case $file in */stats) ;; *) echo "${file##*/} $(cat "$file")" ;; esac; done >/out/device
scheduler mq-prio
echo 16 >"$Q/max_sectors_kb" || fail 'the kernel refuses max_sectors_kb=16'
echo 7 >"$Q/iosched/low_share" || fail 'the kernel refuses low_share=7'
uname -r >/out/kernel
export BACKUP=read
export BACKUP_DEPTH=16
export HIGH_CLASS=1
export HIGH_LEVEL=1
export LOW_CLASS=3
export LOW_LEVEL=7
export RUNTIME=10
export SEED=2
export DEVICE="$DEV"
fio --output-format=json+ --output=/out/fio.json --section=database --section=backup mix.fio
