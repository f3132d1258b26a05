#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# usage: leave-out.sh RELEASE FOLDER COMMAND...
#
# COMMAND has failed to build all modules of FOLDER for RELEASE. This builds those that can be
# built: without the ones that don't compile, and without the ones that need a symbol of these. A
# module that is left out has its reason in a line. Fails if none is left.
set -eu
export LC_ALL=C

# object MODULE: what is linked from all sources of a module, as Kbuild names it.
object()
{
	case $1 in
	simdisk/) echo "$folder/simdisk/simdisk.o" ;;
	nvme/) echo "$folder/nvme/nvme-wrr.o" ;;
	*) echo "$folder/$1" ;;
	esac
}

# leave MODULE WHY: builds go on without it.
leave()
{
	name=$(object "$1")
	rm -f "${name%.o}.ko"
	name=${name##*/}
	last=$2
	printf '  LEFT    %s: %s\n' "${name%.o}" "$2"
}

# compiled: sets good to the modules that compile.
compiled()
{
	for module in $wanted; do
		rm -f "$(object "$module")"
	done
	MODULES=$wanted "$@" -k >"$log" 2>&1 || :
	for module in $wanted; do
		if [ -e "$(object "$module")" ]; then
			good="$good $module"
			continue
		fi
		if MODULES=$module "$@" >"$log" 2>&1 || [ -e "$(object "$module")" ]; then
			good="$good $module" # it was not its own fault
			continue
		fi
		leave "$module" "$(sed -n 's/.*error: //p' "$log" | head -n 1 | grep . || echo "see $log")"
	done
}

# missing NAME: the first symbol that the module lacks, as modpost says it, before 7.x and since.
missing()
{
	sed -n "s,.*modpost: \"\([^\"]*\)\" \[\(.*/\)\?$1\.ko\] undefined.*,\1,p
		s,.*modpost: \(.*/\)\?$1\.ko: symbol '\([^']*\)' undefined.*,\2,p" "$log" | head -n 1
}

# linked: builds the good modules, or leaves out one whose symbols are missing. Fails for another reason.
linked()
{
	if MODULES=$good "$@" >"$log" 2>&1; then
		done=1
		return
	fi
	rest=
	for module in $good; do
		name=$(object "$module")
		name=${name##*/}
		why=$(missing "${name%.o}")
		if [ -n "$why" ]; then
			leave "$module" "it needs $why"
		else
			rest="$rest $module"
		fi
	done
	[ "$rest" != "$good" ] || {
		cat "$log" >&2
		exit 1
	}
	good=$rest
}

release=$1 folder=$2
shift 2
log=$folder/log
wanted=${MODULES:-$(sed -n '/^every :=/,/[^\\]$/p' Kbuild | grep -o '[a-z-]*\.o\|simdisk/')}
[ -n "${MODULES-}" ] || [ ! -e "$folder/nvme/pci.c" ] || wanted="$wanted nvme/"
good='' done='' last=''
compiled "$@"
while [ -n "$good" ] && [ -z "$done" ]; do
	linked "$@"
done
[ -n "$good" ] || {
	printf 'sluice: no module can be built for %s: %s\n  next: report it, with %s\n' "$release" "$last" "$log" >&2
	exit 1
}
