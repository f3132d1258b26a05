#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# usage: block-types.sh RELEASE HEADERS FOLDER [BTF]
#
# Writes FOLDER/compat/block-types.h, with the structures private to the
# kernel's block/ folder that an elevator needs and the prototypes of the
# functions it calls, and FOLDER/compat/features.h, with SLUICE_HAS_... for what
# differs between kernels. All are read from the type data (BTF) of the very
# kernel RELEASE, vendor's patches included: no headers package has had them
# since 5.16, and a copy kept here would be an ABI hazard (6.18.2 moved most of
# the callbacks by 16 bytes, which module versions don't notice). FOLDER/vmlinux
# becomes a link to the type data.
#
# Refuses with the reason, and with what to type next, when something is missing
# or isn't as compat/elevator.h knows it.
set -eu
export LC_ALL=C

# die WHAT NEXT: says what happened and what to do about it.
die()
{
	printf 'sluice: %s\n  next: %s\n' "$1" "$2" >&2
	exit 1
}

# refuse WHAT: this kernel's block layer isn't one that compat/ knows.
refuse()
{
	die "$1 in the type data of $release ($btf)" \
	    "if BTF is this kernel's own, teach $0 and ${0%/*}/elevator.h the change"
}

check_tools()
{
	[ -e "$headers/Module.symvers" ] ||
		die "no kernel headers for $release in $headers" \
		    "apt-get install linux-headers-$release, or name them: KDIR="
	command -v pfunct >/dev/null ||
		die "pahole and pfunct aren't installed; they read type data" \
		    "apt-get install dwarves"
}

# number OFFSET BYTES: a little-endian number in the kernel image.
number()
{
	od -An -t "u$2" -j "$1" -N "$2" "$image" | tr -d ' '
}

# unpack FILE: the kernel proper out of a bzImage. The setup header says where the
# compressed kernel lies (Documentation/arch/x86/boot.rst: setup_sects,
# payload_offset, payload_length); what follows it upsets the decompressors
# after they have done their work, so only the result counts.
unpack()
{
	start=$((($(number 497 1) + 1) * 512 + $(number 584 4)))
	tail -c "+$((start + 1))" "$image" | head -c "$(number 588 4)" >"$1.packed"
	case $(od -An -t x1 -N 4 "$1.packed" | tr -d ' ') in
	28b52ffd) tool=zstd ;;
	fd377a58) tool="xz --single-stream" ;;
	02214c18) tool=lz4 ;;
	1f8b*) tool=gzip ;;
	*) die "$image is compressed in an unknown way" "give BTF=<vmlinux>" ;;
	esac
	command -v "${tool%% *}" >/dev/null ||
		die "${tool%% *} isn't installed; $image is packed with it" \
		    "apt-get install zstd xz-utils lz4 gzip"
	$tool -dc <"$1.packed" >"$1.part" 2>/dev/null || true
	rm "$1.packed"
	readelf -h "$1.part" >/dev/null 2>&1 ||
		die "there is no kernel in $image" "give BTF=<vmlinux>"
	mv "$1.part" "$1"
}

# find_btf: sets btf, from the cheapest source to the dearest.
find_btf()
{
	image=/boot/vmlinuz-$release
	if [ -n "$btf" ]; then
		[ -r "$btf" ] || die "BTF=$btf can't be read" "ls -l $btf"
	elif [ -e "$headers/vmlinux" ]; then
		btf=$headers/vmlinux
	elif [ "$release" = "$(uname -r)" ] && [ -e /sys/kernel/btf/vmlinux ]; then
		btf=/sys/kernel/btf/vmlinux
	elif [ -r "$image" ]; then
		btf=$folder/vmlinux-$release
		[ -e "$btf" ] || unpack "$btf"
	else
		die "no type data of $release: not in $headers, not in $image" \
		    "apt-get install linux-image-$release, or give BTF=<vmlinux>"
	fi
}

# describe NAME: pahole's description of a type, for the functions below.
describe()
{
	[ -e "$work/$1" ] ||
		pahole -F btf -C "$1" "$btf" >"$work/$1" 2>/dev/null || true
	grep -qw -- "$1" "$work/$1" || refuse "no type $1"
}

# emit NAME: writes a type as C. BTF keeps neither __bitwise nor __user, which
# sparse wants to see.
emit()
{
	describe "$1"
	sed 's,/\*.*\*/,,; s/[[:space:]]*$//; /^$/d
		s/ blk_insert_t;/ __bitwise&/
		s/\((\*write)(void \*, const char \)/\1 __user/' "$work/$1"
}

# assert_size NAME: the compiler shall see the size that the kernel's type has.
assert_size()
{
	describe "$1"
	printf 'static_assert(sizeof(struct %s) == %s, "%s");\n' "$1" \
		"$(sed -n 's,.*/\* size: \([0-9]*\),\1,; s/,.*cachelines.*//p' "$work/$1")" \
		"headers and type data are of different kernels: give BTF="
}

# member STRUCTURE NAME: prints how a member is declared, in one line.
member()
{
	describe "$1"
	sed 's,/\*.*\*/,,' "$work/$1" | tr -s ' \t' ' ' | grep -w -- "$2" || true
}

# need STRUCTURE MEMBER...: refuses if a member that elevators use is gone.
need()
{
	name=$1
	shift
	for wanted; do
		[ -n "$(member "$name" "$wanted")" ] ||
			refuse "no member $wanted of struct $name"
	done
}

# choose FEATURE STRUCTURE MEMBER YES NO: defines FEATURE if the member's
# declaration holds YES; refuses if it holds neither YES nor NO.
choose()
{
	case $(member "$2" "$3") in
	*"$4"*) echo "#define $1 1" ;;
	*"$5"*) ;;
	*) refuse "struct $2 has an unknown member $3: $(member "$2" "$3")" ;;
	esac
}

private="elevator_mq_ops elv_fs_entry elevator_type elevator_queue blk_mq_ctx
	blk_mq_alloc_data blkcg blkcg_policy blkcg_policy_data"
# Public ones, whose sizes differ if headers and type data aren't of one kernel.
public="request request_queue blk_mq_hw_ctx"

structures()
{
	emit elv_merge
	case $(member elevator_mq_ops insert_requests) in
	*blk_insert_t*) emit blk_insert_t ;;
	esac
	describe blkcg_policy
	for name in $(grep -o 'blkcg_pol_[a-z_]*_fn' "$work/blkcg_policy") $private; do
		emit "$name"
	done
	if grep -q '^CONFIG_BLK_DEBUG_FS=y' "$headers/include/config/auto.conf"; then
		emit blk_mq_debugfs_attr
	fi
}

# sizes: not for sparse, which lays struct request_queue out in its own way.
sizes()
{
	echo "#ifndef __CHECKER__"
	for name in $private $public; do
		assert_size "$name"
	done
	echo "#endif"
}

members()
{
	need elevator_mq_ops exit_sched init_hctx exit_hctx allow_merge \
		bio_merge request_merge request_merged requests_merged \
		limit_depth prepare_request finish_request dispatch_request \
		has_work completed_request requeue_request former_request \
		next_request
	need elevator_type ops elevator_attrs elevator_name elevator_alias \
		elevator_owner
	need elevator_queue type elevator_data
	need elv_fs_entry attr show store
	need blk_mq_alloc_data q hctx shallow_depth cmd_flags
	need blk_mq_ctx hctxs
	need blkcg css cpd
	need blkcg_policy plid dfl_cftypes cpd_alloc_fn cpd_free_fn
}

features()
{
	choose SLUICE_HAS_INSERT_FLAGS elevator_mq_ops insert_requests \
		', blk_insert_t)' ', bool)'
	choose SLUICE_HAS_INIT_QUEUE elevator_mq_ops init_sched \
		', struct elevator_queue *)' ', struct elevator_type *)'
	choose SLUICE_HAS_QUEUE_DEPTH elevator_mq_ops depth_updated \
		'(struct request_queue *)' '(struct blk_mq_hw_ctx *)'
	choose SLUICE_HAS_CONST_ATTRS elevator_type elevator_attrs \
		'const struct elv_fs_entry' 'struct elv_fs_entry'
	if grep -q ' hrtimer_setup(' "$work/functions"; then
		echo "#define SLUICE_HAS_HRTIMER_SETUP 1"
	fi
	if grep -q ' blk_req_zone_write_trylock(' "$work/functions"; then
		need elevator_type elevator_features
		echo "#define SLUICE_HAS_ZONE_LOCKS 1"
	fi
	if [ -n "$(member elevator_queue flags)" ]; then
		echo "#define SLUICE_HAS_ELEVATOR_FLAGS 1"
	fi
	case $(grep ' wbt_disable_default(' "$work/functions") in
	*'(struct gendisk *'*) echo "#define SLUICE_HAS_WBT_OF_DISK 1" ;;
	*'(struct request_queue *'*) echo "#define SLUICE_HAS_WBT_OF_QUEUE 1" ;;
	esac
	blkdev=$(public_header linux/blkdev.h)
	if grep -q 'QUEUE_FLAG_DISABLE_WBT_DEF' "$blkdev"; then
		echo "#define SLUICE_HAS_WBT_QUEUE_FLAG 1"
	fi
	blk_mq=$(public_header linux/blk-mq.h)
	if grep -q 'BLK_MQ_F_SHOULD_MERGE' "$blk_mq"; then
		echo "#define SLUICE_HAS_SHOULD_MERGE 1"
	fi
	blk_types=$(public_header linux/blk_types.h)
	if grep -q 'bd_super;' "$blk_types"; then
		echo "#define SLUICE_HAS_BD_SUPER 1"
	fi
	if [ -n "$(member request_queue async_depth)" ]; then
		echo "#define SLUICE_HAS_ASYNC_DEPTH 1"
	fi
	if grep -q 'fs_holder_ops;' "$blkdev"; then
		echo "#define SLUICE_HAS_FS_HOLDER_OPS 1"
	fi
	if grep -q ' filemap_fdatawrite_wbc(' "$work/functions"; then
		echo "#define SLUICE_HAS_FDATAWRITE_WBC 1"
	fi
	workqueue=$(public_header linux/workqueue.h)
	if grep -q 'system_dfl_wq;' "$workqueue"; then
		echo "#define SLUICE_HAS_DFL_WQ 1"
	fi
	shallow_depth
}

# public_header FILE: the path of a public header; Debian keeps them apart from what
# belongs to one flavour, and names their folder in the Makefile.
public_header()
{
	common=$(sed -n 's/^include \(\/.*\)\/Makefile$/\1/p' "$headers/Makefile")
	[ -e "${common:=$headers}/include/$1" ] ||
		die "no $1 in $common/include" "reinstall linux-headers-$release"
	echo "$common/include/$1"
}

# shallow_depth: no type tells what the number counts, but the commit that
# changed it (42e6c6ce03fd "lib/sbitmap: convert shallow_depth from one word to
# the whole sbitmap") changed the sentence that describes it too, and a vendor
# takes both or neither.
shallow_depth()
{
	sbitmap=$(public_header linux/sbitmap.h)
	case $(grep '@shallow_depth: The maximum' "$sbitmap") in
	*"from a single word."*) echo "#define SLUICE_HAS_WORD_DEPTH 1" ;;
	*"from the queue."*) ;;
	*) die "$sbitmap doesn't say what shallow_depth counts" \
	       "compare sbitmap_queue_get_shallow() of $release with $0" ;;
	esac
}

# prototypes: as the kernel has them; elevator.h declares them once more, so
# that the compiler compares the two.
prototypes()
{
	for name in elv_register elv_unregister elv_rb_add elv_rb_del \
		elv_rb_find elv_rb_former_request elv_rb_latter_request \
		elv_rqhash_add elv_rqhash_del elv_bio_merge_ok \
		blk_mq_sched_try_merge blk_mq_sched_try_insert_merge \
		blk_mq_sched_mark_restart_hctx blkcg_policy_register \
		blkcg_policy_unregister; do
		grep "[ *]$name(" "$work/functions" || refuse "no function $name"
	done
	case $(member elevator_mq_ops init_sched) in
	*elevator_type*) grep '[ *]elevator_alloc(' "$work/functions" ;;
	esac
	# Where the kernel throttles writeback at all.
	grep ' wbt_\(disable\|enable\)_default(' "$work/functions" || true
}

# forward: declares every structure that is only pointed at.
forward()
{
	grep -oh 'struct [a-z_0-9]\+' "$work/types" "$work/prototypes" |
		sort -u | sed 's/$/;/'
}

# header NAME PART...: writes a header, unless it would stay as it is: what is
# newer is compiled again.
header()
{
	file=$folder/compat/$1.h
	guard=SLUICE_$(echo "$1" | tr a-z- A-Z_)_H
	shift
	{
		echo "/* Written by compat/block-types.sh for $release. */"
		printf '#ifndef %s\n#define %s\n\n' "$guard" "$guard"
		(cd "$work" && cat "$@")
		printf '\n#endif\n'
	} >"$work/header"
	cmp -s "$work/header" "$file" || cp "$work/header" "$file"
}

release=$1 headers=$2 folder=$3 btf=${4:-}
check_tools
mkdir -p "$folder/compat"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find_btf
pfunct -F btf -P "$btf" >"$work/functions" 2>/dev/null || true
structures >"$work/types"
sizes >"$work/sizes"
members
prototypes >"$work/prototypes"
forward >"$work/forward"
features >"$work/features"
header block-types forward types sizes prototypes
header features features
ln -sfn "$(realpath "$btf")" "$folder/vmlinux"
