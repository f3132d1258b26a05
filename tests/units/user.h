/* SPDX-License-Identifier: GPL-2.0-only */
/* User-space counterparts of the kernel helpers that what is pure in kernel/ uses. */
#ifndef UNITS_USER_H
#define UNITS_USER_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define BIT(bit) (1UL << (bit))
#define BIT_ULL(bit) (1ULL << (bit))
#define GFP_KERNEL 0
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define min(a, b)                     \
	({                            \
		__auto_type _a = (a); \
		__auto_type _b = (b); \
		_a < _b ? _a : _b;    \
	})
#define max(a, b)                     \
	({                            \
		__auto_type _a = (a); \
		__auto_type _b = (b); \
		_a > _b ? _a : _b;    \
	})
#define min_t(type, a, b) min((type)(a), (type)(b))
#define clamp_t(type, value, least, most) max((type)(least), min_t(type, value, most))
#define min3(a, b, c)                        \
	({                                   \
		__auto_type _ab = min(a, b); \
		__auto_type _c = (c);        \
		_ab < _c ? _ab : _c;         \
	})
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#define struct_size(pointer, member, count) \
	(sizeof(*(pointer)) + (count) * sizeof((pointer)->member[0]))

#define kzalloc(size, flags) calloc(1, size)
#define kcalloc(count, size, flags) calloc(count, size)
#define kfree(pointer) free(pointer)
#define kvcalloc(count, size, flags) calloc(count, size)
#define kvfree(pointer) free(pointer)

#define div_u64(value, by) ((u64)(value) / (by))
#define div64_u64(value, by) ((u64)(value) / (by))
#define div64_s64(value, by) ((s64)(value) / (s64)(by))
#define div_s64(value, by) ((s64)(value) / (s64)(by))
#define mul_u64_u64_div_u64(a, b, by) ((u64)((unsigned __int128)(a) * (b) / (by)))
#define __ffs64(word) ((unsigned int)__builtin_ctzll(word))
#define DIV_ROUND_UP(value, by) (((value) + (by) - 1) / (by))

#define smp_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define READ_ONCE(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define WRITE_ONCE(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELAXED)

/* A warning is a failure here. */
#define WARN_ON_ONCE(condition)                                          \
	({                                                               \
		bool _warn = (condition);                                \
		if (_warn) {                                             \
			printf("%s: warns: %s\n", __func__, #condition); \
			abort();                                         \
		}                                                        \
		_warn;                                                   \
	})

typedef struct {
	int counter;
} atomic_t;

#define atomic_read(atomic) __atomic_load_n(&(atomic)->counter, __ATOMIC_RELAXED)
#define atomic_set_release(atomic, value) \
	__atomic_store_n(&(atomic)->counter, value, __ATOMIC_RELEASE)
#define atomic_sub(by, atomic) ((void)__atomic_fetch_sub(&(atomic)->counter, by, __ATOMIC_RELAXED))
#define atomic_inc(atomic) ((void)__atomic_fetch_add(&(atomic)->counter, 1, __ATOMIC_RELAXED))
#define atomic_inc_return(atomic) __atomic_add_fetch(&(atomic)->counter, 1, __ATOMIC_SEQ_CST)
#define atomic_dec_return(atomic) __atomic_sub_fetch(&(atomic)->counter, 1, __ATOMIC_SEQ_CST)
#define atomic_dec_and_test(atomic) (!atomic_dec_return(atomic))

static inline bool atomic_add_unless(atomic_t *atomic, int add, int unless)
{
	int is = atomic_read(atomic);

	while (is != unless)
		if (__atomic_compare_exchange_n(&atomic->counter, &is, is + add, false,
						__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			return true;
	return false;
}

typedef struct {
	bool held;
} spinlock_t;

#define lockdep_assert_held(lock) WARN_ON_ONCE(!__atomic_load_n(&(lock)->held, __ATOMIC_RELAXED))
#define spin_lock_init(lock) ((lock)->held = false)
#define spin_lock_irqsave(lock, flags)                                         \
	do {                                                                   \
		(flags) = 0;                                                   \
		while (__atomic_test_and_set(&(lock)->held, __ATOMIC_ACQUIRE)) \
			;                                                      \
	} while (0)
#define spin_unlock_irqrestore(lock, flags)                      \
	do {                                                     \
		(void)(flags);                                   \
		__atomic_clear(&(lock)->held, __ATOMIC_RELEASE); \
	} while (0)

/* The largest number whose square is at most @value, bit by bit. */
static inline u32 int_sqrt64(u64 value)
{
	u64 root = 0;
	int bit;

	for (bit = 31; bit >= 0; bit--)
		if ((root | 1ULL << bit) * (root | 1ULL << bit) <= value)
			root |= 1ULL << bit;
	return root;
}

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD(name) struct list_head name = { &(name), &(name) }
#define list_first_entry(list, type, member) container_of((list)->next, type, member)
#define list_entry_at(position, entry, member) container_of(position, __typeof__(*(entry)), member)
#define list_for_each_entry(entry, list, member)                                           \
	for (entry = list_entry_at((list)->next, entry, member); &entry->member != (list); \
	     entry = list_entry_at(entry->member.next, entry, member))
#define list_for_each_entry_reverse(entry, list, member)                                   \
	for (entry = list_entry_at((list)->prev, entry, member); &entry->member != (list); \
	     entry = list_entry_at(entry->member.prev, entry, member))
#define list_for_each_entry_safe(entry, after, list, member)          \
	for (entry = list_entry_at((list)->next, entry, member),      \
	    after = list_entry_at(entry->member.next, entry, member); \
	     &entry->member != (list);                                \
	     entry = after, after = list_entry_at(after->member.next, after, member))

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list_head *list)
{
	return list->next == list;
}

static inline void list_add(struct list_head *entry, struct list_head *after)
{
	entry->prev = after;
	entry->next = after->next;
	after->next->prev = entry;
	after->next = entry;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *list)
{
	list_add(entry, list->prev);
}

static inline void list_del_init(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	INIT_LIST_HEAD(entry);
}

static inline void list_splice_tail_init(struct list_head *from, struct list_head *list)
{
	if (list_empty(from))
		return;
	from->next->prev = list->prev;
	list->prev->next = from->next;
	from->prev->next = list;
	list->prev = from->prev;
	INIT_LIST_HEAD(from);
}

#endif
