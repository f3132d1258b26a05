// SPDX-License-Identifier: GPL-2.0-only
/*
 * The drives, as data. Beside each number is where it comes from; "fitted"
 * says that no source gives it and which published figure it was chosen for.
 * tests/test_profiles.py compares each profile with the real drive's figures.
 */
#include "profile.h"

/* clang-format off */
const struct profile profiles[] = {
	{
		/* Intel X25-M G2 80 GB (SSDSA2M080G2), SATA 3 Gb/s, MLC. */
		.name = "ssd",
		.kind = PROFILE_SSD,
		.sectors = 156301488,		/* datasheet */
		.queues = 1,			/* SATA */
		.queue_depth = 32,		/* datasheet: NCQ 32 */
		.slots = 32,
		.slowdown = 2,			/* 35k IOPS are too many for the lab */
		.fua = 0,			/* as the kernel drives SATA by default */
		.queued_flush = 0,		/* SATA: FLUSH CACHE and TRIM are not queued */
		.read_cmd_ns = 28500,		/* datasheet: 35,000 random reads/s */
		.write_cmd_ns = 28500,		/* taken to be the same */
		.read_latency_ns = 4000,	/* fitted: 85 us typical read latency */
		.write_latency_ns = 98000,	/* fitted: 115 us typical write latency */
		.link_mbps = 250,		/* datasheet: sequential read */
		.duplex = 0,			/* SATA is half duplex */
		.flush_ns = 2000000,		/* consumer SATA fsync: 3 to 4 ms */
		.discard_ns = 1000000,		/* fitted: TRIM of this age about 1 ms */
		.zeroes_ns = 0,
		.cache_kib = 256,		/* SRAM; Intel: no user data in DRAM */
		.protected_cache = 0,
		.channels = 10,			/* Intel's product brief: 10 channels */
		.dies = 2,			/* 20 dies of 4 GB */
		.channel_mbps = 273,		/* fitted: 15 us a page, the rest of the 85 us */
		.page_kib = 4,			/* 34 nm MLC NAND */
		.program_kib = 4,
		.read_lsb_ns = 40000,		/* 34 nm MLC NAND: 50 us, by page */
		.read_msb_ns = 60000,
		.program_lsb_ns = 440000,	/* fitted: 70 MB/s sequential write */
		.program_msb_ns = 1900000,
		.erase_ns = 3800000,		/* MLC NAND of the time: 3.8 ms */
		.block_programs = 256,		/* 34 nm MLC: 256 pages a block */
		.suspend_ns = 0,		/* not in NAND of 2009 */
		.sequential_wa_pct = 100,	/* in the program time */
		.random_wa_pct = 260,		/* fitted: 6,600 random writes a second */
	},
	{
		/* Samsung eMMC 5.1, 64 GB, HS400, as announced in February 2015. */
		.name = "emmc",
		.kind = PROFILE_SSD,
		.sectors = 122142720,		/* 64 GB parts give 58.2 GiB */
		.queues = 1,			/* JESD84-B51: one command queue */
		.queue_depth = 32,		/* JESD84-B51: 32 tasks */
		.slots = 32,
		.slowdown = 1,
		.fua = 1,			/* reliable write */
		.queued_flush = 0,		/* the kernel halts the queue to flush */
		.read_cmd_ns = 90900,		/* Samsung: 11,000 random reads/s */
		.write_cmd_ns = 76900,		/* Samsung: 13,000 random writes/s */
		.read_latency_ns = 20000,	/* fitted: about 160 us at QD1 */
		.write_latency_ns = 60000,	/* fitted: about 80 us at QD1 */
		.link_mbps = 250,		/* Samsung: sequential read */
		.duplex = 0,			/* one 8-bit bus */
		.flush_ns = 1000000,		/* 1 to 5 ms, programs included */
		.discard_ns = 500000,		/* fitted: TRIM 0.5 ms */
		.zeroes_ns = 500000,		/* trimmed sectors read as zeroes */
		.cache_kib = 512,		/* typical CACHE_SIZE */
		.protected_cache = 0,
		.channels = 2,			/* typical controller of the class */
		.dies = 2,
		.channel_mbps = 400,		/* ONFI 3: 400 MT/s */
		.page_kib = 16,			/* 3D TLC */
		.program_kib = 32,		/* two planes */
		.read_lsb_ns = 60000,		/* 3D TLC: 60 to 100 us */
		.read_msb_ns = 100000,
		.program_lsb_ns = 700000,	/* fitted: 125 MB/s sequential write */
		.program_msb_ns = 1380000,
		.erase_ns = 3500000,		/* 3D TLC: 3.5 ms */
		.block_programs = 384,
		.suspend_ns = 50000,		/* fitted: as parts of 2015 do */
		.sequential_wa_pct = 100,
		.random_wa_pct = 220,		/* fitted: 13,000 random writes a second */
	},
	{
		/* Western Digital Caviar Blue WD5000AAKX, 500 GB, 7200 rpm. */
		.name = "hdd",
		.kind = PROFILE_HDD,
		.sectors = 976773168,		/* datasheet */
		.queues = 1,			/* SATA */
		.queue_depth = 32,		/* NCQ */
		.slots = 32,
		.slowdown = 1,
		.fua = 0,			/* as the kernel drives SATA by default */
		.read_cmd_ns = 20000,		/* fitted: command overhead of the class */
		.write_cmd_ns = 20000,
		.read_latency_ns = 100000,	/* class: 0.1 to 0.3 ms */
		.write_latency_ns = 100000,
		.link_mbps = 300,		/* buffer to host measured near 300 MB/s */
		.duplex = 0,			/* SATA is half duplex */
		.flush_ns = 2000000,		/* fitted: fsync 12 to 35 ms */
		.discard_ns = 0,
		.zeroes_ns = 0,
		.cache_kib = 16384,		/* datasheet: 16 MB */
		.protected_cache = 0,
		.rpm = 7200,			/* datasheet */
		.outer_mbps = 126,		/* datasheet: 126 MB/s sustained */
		.inner_mbps = 63,		/* zones about 2:1 */
		.seek_track_ns = 1000000,	/* class: 0.6 to 2 ms */
		.seek_full_ns = 15800000,	/* 8.9 ms mean: 1.0 + 8/15 * 14.8 */
		.seek_write_ns = 1000000,	/* class: write seeks take 1 ms more */
		.skew_ns = 1000000,		/* head switch of the class */
		.age_cap_ns = 500000000,	/* fitted: about half a second */
		.readahead_kib = 1024,		/* 16 MB, 8 segments, half ahead */
	},
	{
		/* Samsung 970 PRO 1 TB; times as measured and modelled by NVMeVirt (FAST'23). */
		.name = "nvme",
		.kind = PROFILE_SSD,
		.sectors = 2000409264,		/* datasheet: 1 TB */
		.queues = 4,			/* room for arbitration; the drive has 32 */
		.queue_depth = 64,
		.slots = 256,
		.wrr = 1,			/* the class: PM1725a, P4510 */
		.slowdown = 24,			/* 500k IOPS are too many for the lab */
		.fua = 1,
		.queued_flush = 1,		/* NVMe: FLUSH is a command like others */
		.read_cmd_ns = 2000,		/* datasheet: 500,000 random reads/s */
		.write_cmd_ns = 2000,		/* datasheet: 500,000 random writes/s */
		.read_latency_ns = 21500,	/* NVMeVirt: firmware, 4 KiB read */
		.write_latency_ns = 17000,	/* datasheet: 55,000 random writes/s at QD1 */
		.link_mbps = 3500,		/* datasheet: sequential read */
		.duplex = 1,			/* PCIe */
		.flush_ns = 500000,		/* fitted: fsync of the class, 1 ms */
		.discard_ns = 100000,		/* fitted: deallocate about 0.1 ms */
		.zeroes_ns = 100000,
		.cache_kib = 4096,		/* fitted: NVMeVirt's buffer is of a few MB */
		.protected_cache = 0,
		.channels = 8,			/* NVMeVirt */
		.dies = 4,			/* 1 TB of 256 Gbit dies over 8 channels */
		.channel_mbps = 800,		/* NVMeVirt */
		.page_kib = 16,			/* 64-layer V-NAND */
		.program_kib = 16,		/* fitted: 2,700 MB/s sequential write */
		.read_lsb_ns = 29760,		/* NVMeVirt */
		.read_msb_ns = 41760,		/* NVMeVirt */
		.program_lsb_ns = 185000,	/* NVMeVirt */
		.program_msb_ns = 185000,
		.erase_ns = 0,			/* NVMeVirt: hidden */
		.block_programs = 256,
		.suspend_ns = 5000,		/* fitted: program suspend of 3D NAND */
		.sequential_wa_pct = 100,
		.random_wa_pct = 130,		/* fitted: 500,000 random writes a second */
	},
};

/* clang-format on */

const unsigned int profiles_count = ARRAY_SIZE(profiles);

#define PARAMETER(name, kinds, least, most) \
	{ #name, offsetof(struct profile, name), kinds, least, most },

const struct profile_parameter profile_parameters[] = {
#include "parameters.h"
};

const unsigned int profile_parameters_count = ARRAY_SIZE(profile_parameters);

/**
 * profile_find() - look a drive up
 * @name: as in "hdd"
 *
 * Return: the profile, or NULL.
 */
const struct profile *profile_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < profiles_count; i++)
		if (!strcmp(profiles[i].name, name))
			return &profiles[i];
	return NULL;
}

/**
 * profile_parameter_find() - look a parameter up
 * @name: as in "queue_depth"
 *
 * Return: the parameter, or NULL.
 */
const struct profile_parameter *profile_parameter_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < profile_parameters_count; i++)
		if (!strcmp(profile_parameters[i].name, name))
			return &profile_parameters[i];
	return NULL;
}

/**
 * profile_get() - read a parameter
 * @p: the drive
 * @par: which one
 *
 * Return: its value, in the parameter's unit.
 */
u64 profile_get(const struct profile *p, const struct profile_parameter *par)
{
	return *(const u64 *)((const char *)p + par->offset);
}

/**
 * profile_set() - change a parameter
 * @p: the drive
 * @par: which one
 * @value: in the parameter's unit
 *
 * Return: 0, -EINVAL if the drive's kind doesn't have it, or -ERANGE; nothing
 * is changed then.
 */
int profile_set(struct profile *p, const struct profile_parameter *par, u64 value)
{
	if (!(par->kinds & p->kind))
		return -EINVAL;
	if (value < par->least || value > par->most)
		return -ERANGE;
	*(u64 *)((char *)p + par->offset) = value;
	return 0;
}
