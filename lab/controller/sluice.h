/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arbitration for QEMU's NVMe controller: included by its ctrl.c. One arbiter decides what is
 * fetched next, and a timer on the virtual clock when: a command in each fetch_ns. Without
 * properties the controller is QEMU's own.
 *
 * The arbiter counts commands as far as it has been told of them: what waits in a submission
 * queue is told when its doorbell is rung, when a command of it completes, and before each fetch
 * where doorbells are in memory.
 *
 * For tests there are three admin commands of our own, which do something from cdw10 milliseconds
 * from now on, for cdw11 milliseconds: 0xc1, the controller is gone, as one that was pulled out,
 * and another one is plugged in after that; 0xc2, it fetches nothing but admin commands; 0xc3, it
 * creates no submission queue of low priority.
 */

enum {
	NVME_SLUICE_GONE = 0xc1,
	NVME_SLUICE_STALL = 0xc2,
	NVME_SLUICE_REFUSE = 0xc3,
};

static bool nvme_sluice_between(const NvmeSluiceSpan *span)
{
	int64_t now = qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL);

	return now >= span->begin_ms && now < span->end_ms;
}

/* Whether an access finds no device. */
static bool nvme_sluice_gone(const NvmeCtrl *n)
{
	return n->sluice.gone.end_ms &&
	       qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) >= n->sluice.gone.begin_ms;
}

/* The bus looks whether a device is there, and finds a new one. */
static void nvme_sluice_look(NvmeCtrl *n)
{
	if (nvme_sluice_gone(n) && !nvme_sluice_between(&n->sluice.gone)) {
		n->sluice.gone.end_ms = 0;
		nvme_ctrl_reset(n, NVME_RESET_FUNCTION);
	}
}

static bool nvme_sluice_command(NvmeCtrl *n, const NvmeCmd *cmd)
{
	NvmeSluiceSpan span = { .begin_ms = qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) +
					    le32_to_cpu(cmd->cdw10) };

	span.end_ms = span.begin_ms + le32_to_cpu(cmd->cdw11);
	switch (nvme_sluice_on(n) ? cmd->opcode : 0) {
	case NVME_SLUICE_GONE:
		n->sluice.gone = span;
		return true;
	case NVME_SLUICE_STALL:
		n->sluice.stall = span;
		return true;
	case NVME_SLUICE_REFUSE:
		n->sluice.refuse = span;
		return true;
	}
	return false;
}

/* The queue's commands that could be fetched now. */
static unsigned int nvme_sluice_waiting(const NvmeSQueue *sq)
{
	unsigned int waiting = (sq->tail + sq->size - sq->head) % sq->size;

	return QTAILQ_EMPTY(&sq->req_list) ? 0 : waiting;
}

static bool nvme_sluice_on(const NvmeCtrl *n)
{
	return n->params.wrr || n->params.fetch_ns;
}

static void nvme_sluice_tell(NvmeSQueue *sq)
{
	struct arbiter *arb = &sq->ctrl->sluice.arbiter;
	unsigned int *told = &arb->waiting[sq->place.level][sq->place.index];
	unsigned int waiting;

	if (sq->ctrl->dbbuf_enabled) {
		nvme_update_sq_tail(sq);
	}
	waiting = nvme_sluice_waiting(sq);
	while (*told < waiting) {
		arbiter_add(arb, sq->place);
	}
}

/* Something may wait: fetch at the next moment that the controller can. */
static void nvme_sluice_kick(NvmeCtrl *n)
{
	int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);

	if (n->sluice.arbiter.total) {
		timer_mod(n->sluice.timer, MAX(now, n->sluice.next_ns));
	}
}

static void nvme_sluice_note(NvmeSQueue *sq)
{
	nvme_sluice_tell(sq);
	nvme_sluice_kick(sq->ctrl);
}

static void nvme_sluice_tick(void *opaque)
{
	NvmeCtrl *n = opaque;
	struct arbiter *arb = &n->sluice.arbiter;
	struct arbiter_queue place;
	NvmeSQueue *sq;

	if (nvme_sluice_gone(n)) {
		return;
	}
	if (nvme_sluice_between(&n->sluice.stall) && !arb->waiting[ARBITER_ADMIN][0]) {
		timer_mod(n->sluice.timer, n->sluice.stall.end_ms * SCALE_MS);
		return;
	}
	if (!arbiter_fetch(arb, &place)) {
		return;
	}
	sq = n->sluice.queue[place.level][place.index];
	n->sluice.next_ns = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) + n->params.fetch_ns;
	sq->fetch = true;
	nvme_process_sq(sq);
	/* The admin command may have deleted it, or reset the controller. */
	if (n->sluice.queue[place.level][place.index] == sq) {
		sq->fetch = false;
		if (n->dbbuf_enabled) {
			nvme_sluice_tell(sq);
		}
	}
	nvme_sluice_kick(n);
}

/* Returns 0, or -1: there is no place, or the priority is refused. */
static int nvme_sluice_place(NvmeSQueue *sq, unsigned int qprio)
{
	NvmeCtrl *n = sq->ctrl;
	unsigned int level = sq->sqid ? ARBITER_URGENT + (n->sluice.arbiter.weighted ? qprio : 0)
				      : ARBITER_ADMIN,
		     i;

	if (level == ARBITER_LOW && nvme_sluice_between(&n->sluice.refuse)) {
		return -1;
	}
	for (i = 0; i < ARBITER_QUEUES; i++) {
		if (!n->sluice.queue[level][i]) {
			n->sluice.queue[level][i] = sq;
			sq->place = (struct arbiter_queue){ level, i };
			return 0;
		}
	}
	return -1;
}

static void nvme_sluice_free(NvmeSQueue *sq)
{
	NvmeCtrl *n = sq->ctrl;

	if (nvme_sluice_on(n)) {
		arbiter_drop(&n->sluice.arbiter, sq->place);
		n->sluice.queue[sq->place.level][sq->place.index] = NULL;
	}
}

static void nvme_sluice_set(NvmeCtrl *n, uint32_t feature)
{
	n->sluice.feature = feature;
	arbiter_set(&n->sluice.arbiter, NVME_CC_AMS(ldl_le_p(&n->bar.cc)), feature);
}

static void nvme_sluice_start(NvmeCtrl *n)
{
	memset(n->sluice.queue, 0, sizeof(n->sluice.queue));
	arbiter_init(&n->sluice.arbiter);
	nvme_sluice_set(n, n->sluice.feature = NVME_ARB_AB_NOLIMIT);
	if (!n->sluice.timer) {
		n->sluice.timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, nvme_sluice_tick, n);
	}
}

static void nvme_sluice_stop(NvmeCtrl *n)
{
	if (n->sluice.timer) {
		timer_del(n->sluice.timer);
	}
}
