#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# ./sluice with: becomes a command, in a cgroup of its own that has a rate, deadlines or a weight.
#
# 	…			the caller's cgroup's parent, with the io controller for its children
# 	└── sluice-PID		has the settings
# 	    └── run		has the command; an inner "with" makes its cgroup below sluice-PID
#
# The next "with" removes empty ones.
set -euo pipefail

usage() {
	cat <<-end
		usage: sluice with [--rate N] [--read-deadline T] [--fsync-deadline T] [--weight N] -- COMMAND…

		  --rate N            its rate on each disk, with split-token: 10MB/s; kB, MB, GB, KiB, MiB, GiB
		  --read-deadline T   for its reads, with split-deadline: 5ms; us, ms, s
		  --fsync-deadline T  for its fsyncs, with split-deadline
		  --weight N          its weight, with afq or cpq: 1 to 1000; others have 100

		exit status: the command's; 2 usage, 3 it could not be started
	end
}

# stop STATUS WHAT TRY
stop() {
	printf 'sluice: %s\n   next: %s\n' "$2" "$3" >&2
	exit "$1"
}

# scaled TEXT UNITS LEAST MOST: a number with a unit, as "10MB/s" of "B/s=1 MB/s=1000000", within limits; else nothing.
scaled() {
	LC_ALL=C awk -v text="$1" -v units="$2" -v least="$3" -v most="$4" 'BEGIN {
		if (!match(text, /^[0-9]+(\.[0-9]+)?/)) exit
		for (n = split(units, unit, " "); n; n--) {
			split(unit[n], part, "=")
			value = sprintf("%.0f", substr(text, 1, RLENGTH) * part[2])
			if (substr(text, RLENGTH + 1) == part[1] && value + 0 >= least && value + 0 <= most) print value
		}
	}'
}

RATES="B/s=1 kB/s=1000 MB/s=1000000 GB/s=1000000000 KiB/s=1024 MiB/s=1048576 GiB/s=1073741824"
TIMES="us=1 ms=1000 s=1000000"

# need OPTION SCHEDULER…: stop unless some disk has one of these schedulers, since otherwise the option has no effect.
need() {
	local option=$1 name
	shift
	for name; do
		! grep -qsF "[$name]" /sys/block/*/queue/scheduler || return 0
	done
	stop 3 "no disk has the scheduler $1, and no other scheduler knows $option" "echo $1 > /sys/block/DISK/queue/scheduler   as root"
}

# take OPTION VALUE: check the value, and record the file and the text to write.
take() {
	local value option
	case $1 in
	--rate)
		value=$(scaled "$2" "$RATES" 1024 8589934592)
		[ "$value" ] || stop 2 "$1 $2: not a rate from 1KiB/s to 8GiB/s" "--rate 10MB/s"
		need "$1" split-token scs-token
		settings+=("io.sluice.rate $value")
		;;
	--read-deadline | --fsync-deadline)
		value=$(scaled "$2" "$TIMES" 100 60000000)
		[ "$value" ] || stop 2 "$1 $2: not a time from 100us to 60s" "$1 5ms"
		need "$1" split-deadline
		option=${1#--}
		settings+=("io.sluice.deadline ${option%-deadline}=$value")
		;;
	--weight)
		value=$(scaled "$2" "=1" 1 1000)
		[ "$value" = "${2:-none}" ] || stop 2 "$1 $2: not a weight from 1 to 1000" "--weight 200"
		need "$1" afq cpq
		settings+=("io.sluice.weight $value")
		;;
	*) stop 2 "there is no option $1" "sluice with --help" ;;
	esac
}

# heard DEADLINE: whether a deadline like fsync=5000 has an effect. Without CAP_SYS_NICE, and without a deadline in a cgroup
# above, a deadline below the disk's own is treated as the disk's own.
heard() {
	local folder=$above knob
	(((0x$(sed -n 's/^CapEff:\t//p' /proc/self/status) >> 23) & 1)) && return
	while [ "$folder" ]; do
		! grep -qs "${1%=*}=[0-9]" "$folder/io.sluice.deadline" || return 0
		folder=${folder%/*}
	done
	for knob in /sys/block/*/queue/iosched/"${1%=*}_deadline"; do
		[ ! -r "$knob" ] || [ "$(<"$knob")" -gt $((${1#*=} / 1000)) ] || return 0
	done
	return 1
}

# Prints the folder in which the cgroup is made.
parent() {
	local top own
	top=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[ "$top" ] || stop 3 "no cgroup v2 is mounted" "mount -t cgroup2 none /sys/fs/cgroup   as root"
	grep -qw io "$top/cgroup.controllers" ||
		stop 3 "the io controller isn't with cgroup v2 at $top" "systemd.unified_cgroup_hierarchy=1   on the kernel's command line"
	own=$(sed -n 's/^0:://p' /proc/self/cgroup)
	own=$top${own%/*}
	printf '%s\n' "${own%/}"
}

# enable FOLDER: enable the io controller for the children of a cgroup, and first for those of the cgroups above.
enable() {
	! grep -qw io "$1/cgroup.subtree_control" || return 0
	grep -qw io "$1/cgroup.controllers" || enable "${1%/*}"
	local error
	error=$({ echo +io >"$1/cgroup.subtree_control"; } 2>&1) ||
		stop 3 "the io controller can't be enabled below $1: ${error##*: }" "sudo sluice with …   from a cgroup that no process is in above"
}

settings=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help)
		usage
		exit 0
		;;
	--)
		shift
		break
		;;
	--*=*) take "${1%%=*}" "${1#*=}" ;;
	-*)
		[ $# -gt 1 ] || stop 2 "$1 needs a value" "sluice with --help"
		take "$1" "$2"
		shift
		;;
	*) break ;;
	esac
	shift
done
[ ${#settings[@]} -gt 0 ] || stop 2 "no setting is given" "sluice with --rate 10MB/s -- COMMAND"
[ $# -gt 0 ] || stop 2 "no command is given" "sluice with --rate 10MB/s -- COMMAND"
type -P -- "$1" >/dev/null || stop 3 "there is no command $1" "type $1"

above=$(parent)
enable "$above"
exec {lock}<"$above"
flock -w 10 "$lock" || stop 3 "another process keeps $above locked" "fuser -v $above   as root"
for old in "$above"/sluice-[0-9]*; do
	[ -d "$old/run" ] || continue
	! grep -qs "populated 0" "$old/cgroup.events" || find "$old" -depth -type d -exec rmdir {} + 2>/dev/null || true
done
group=$above/sluice-$$
error=$(mkdir "$group" "$group/run" 2>&1) || {
	rmdir "$group" 2>/dev/null || true
	error=${error%%$'\n'*}
	stop 3 "no cgroup can be made in $above: ${error##*: }" "sudo sluice with …"
}
# give_up WHAT TRY
give_up() {
	rmdir "$group/run" "$group"
	stop 3 "$@"
}
for setting in "${settings[@]}"; do
	error=$({ echo "${setting#* }" >"$group/${setting%% *}"; } 2>&1) ||
		give_up "the kernel refuses ${setting/ / of }: ${error##*: }" "sudo sluice with …   or more time; 256 cgroups at most have a rate"
	[ "${setting% *}" != io.sluice.deadline ] || heard "${setting#* }" ||
		give_up "${setting#* } µs is less than any disk's own, and no cgroup above has one: it would have no effect" "sudo sluice with …   or more time"
done
{ echo +io >"$group/cgroup.subtree_control" && echo $$ >"$group/run/cgroup.procs"; } 2>/dev/null ||
	give_up "this process can't be moved to $group" "sudo sluice with …"
exec {lock}<&-
exec "$@"
