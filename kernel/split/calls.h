/* SPDX-License-Identifier: GPL-2.0-only */
/* An account's held calls on a device, in order of arrival.  Under the policy's lock. */
#ifndef SPLIT_CALLS_H
#define SPLIT_CALLS_H

#include "split.h"

/**
 * struct held_calls - held calls, in order
 * @list: by struct split_call's node
 * @answered: the last call that was told in this round that it is held, or @list
 * @count: number of calls
 */
struct held_calls {
	struct list_head list;
	struct list_head *answered;
	unsigned int count;
};

static inline void held_calls_init(struct held_calls *calls)
{
	INIT_LIST_HEAD(&calls->list);
	calls->answered = &calls->list;
	calls->count = 0;
}

static inline bool held_calls_none(const struct held_calls *calls)
{
	return list_empty(&calls->list);
}

/* The oldest call; the list isn't empty. */
static inline struct split_call *held_calls_first(const struct held_calls *calls)
{
	return list_first_entry(&calls->list, struct split_call, node);
}

static inline void held_calls_add(struct held_calls *calls, struct split_call *call,
				  const char *reason)
{
	split_hold(call, reason);
	list_add_tail(&call->node, &calls->list);
	calls->count++;
}

static inline void held_calls_del(struct held_calls *calls, struct split_call *call)
{
	if (calls->answered == &call->node)
		calls->answered = call->node.prev;
	list_del_init(&call->node);
	calls->count--;
}

/*
 * Tells each call why it is held, beginning after the one that was told last.  Return: how many
 * more of @left may be told; 0: there are others.
 */
static inline unsigned int held_calls_answer(struct held_calls *calls, const char *reason,
					     unsigned int left)
{
	while (left && !list_is_last(calls->answered, &calls->list)) {
		calls->answered = calls->answered->next;
		split_hold(list_entry(calls->answered, struct split_call, node), reason);
		left--;
	}
	if (left)
		calls->answered = &calls->list;
	return left;
}

#endif
