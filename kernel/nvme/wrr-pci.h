/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weighted round robin for the NVMe PCI driver: included by it, since all of this is between its
 * own functions.
 *
 * Locking: a submission queue's sq_lock is taken alone. What changes queues runs where the
 * driver changes its own.
 */

static int adapter_alloc_sq(struct nvme_dev *dev, u16 qid, struct nvme_queue *nvmeq);
static int adapter_delete_sq(struct nvme_dev *dev, u16 sqid);
static int nvme_alloc_sq_cmds(struct nvme_dev *dev, struct nvme_queue *nvmeq, int qid);
static int nvme_delete_queue(struct nvme_queue *nvmeq, u8 opcode);

/* Queues */

/* A place for each level but the queue's own. */
static struct nvme_queue *wrr_sibling(struct nvme_queue *nvmeq, unsigned int level)
{
	unsigned int place = level < WRR_OWN ? level : level - 1;

	if (level == WRR_OWN)
		return nvmeq;
	return &nvmeq->dev->wrr.sibling[nvmeq->qid * WRR_SIBLINGS + place];
}

static bool wrr_has_siblings(const struct nvme_queue *nvmeq)
{
	return nvmeq->qid && nvmeq->dev->wrr.on;
}

static u16 wrr_sqid(const struct nvme_queue *nvmeq, unsigned int level)
{
	unsigned int place = level < WRR_OWN ? level : level - 1;

	if (level == WRR_OWN)
		return nvmeq->qid;
	return (place + 1) * nvmeq->dev->wrr.queues + nvmeq->qid;
}

/* The sibling of the next level; advances *@level, which begins as -1. NULL past the last. */
static struct nvme_queue *wrr_next(struct nvme_queue *nvmeq, int *level)
{
	if (++*level == WRR_OWN)
		++*level;
	return *level < WRR_LEVELS ? wrr_sibling(nvmeq, *level) : NULL;
}

static void wrr_free_queue(struct nvme_queue *nvmeq)
{
	struct nvme_queue *sq;
	int level = -1;

	if (!nvmeq->qid)
		return;
	while ((sq = wrr_next(nvmeq, &level))) {
		if (!sq->sq_cmds)
			continue;
		if (test_and_clear_bit(NVMEQ_SQ_CMB, &sq->flags))
			pci_free_p2pmem(to_pci_dev(sq->dev->dev), sq->sq_cmds, SQ_SIZE(sq));
		else
			dma_free_coherent(sq->dev->dev, SQ_SIZE(sq), sq->sq_cmds, sq->sq_dma_addr);
		sq->sq_cmds = NULL;
	}
}

/*
 * Allocates the siblings' memory; they are as long as the queue. Returns 0, or without memory what
 * the driver treats like a status: it continues with fewer queues.
 */
static int wrr_alloc_queue(struct nvme_queue *nvmeq)
{
	struct nvme_queue *sq;
	int level = -1;

	if (!wrr_has_siblings(nvmeq))
		return 0;
	while ((sq = wrr_next(nvmeq, &level))) {
		sq->dev = nvmeq->dev;
		sq->sqes = nvmeq->sqes;
		sq->q_depth = nvmeq->q_depth;
		spin_lock_init(&sq->sq_lock);
		if (!sq->sq_cmds && nvme_alloc_sq_cmds(nvmeq->dev, sq, nvmeq->qid)) {
			wrr_free_queue(nvmeq);
			return NVME_SC_INTERNAL;
		}
	}
	return 0;
}

/* Empties the siblings and gives them doorbells. */
static void wrr_init_queue(struct nvme_queue *nvmeq)
{
	struct nvme_dev *dev = nvmeq->dev;
	struct nvme_queue *sq;
	int level = -1;

	memset(nvmeq->wrr.sent, 0, sizeof(nvmeq->wrr.sent));
	memset(nvmeq->wrr.done, 0, sizeof(nvmeq->wrr.done));
	if (!wrr_has_siblings(nvmeq))
		return;
	while ((sq = wrr_next(nvmeq, &level))) {
		memset(sq->wrr.sent, 0, sizeof(sq->wrr.sent));
		sq->sq_tail = 0;
		sq->last_sq_tail = 0;
		sq->q_db = &dev->dbs[sq->qid * 2 * dev->db_stride];
		nvme_dbbuf_init(dev, sq, sq->qid);
	}
}

/* The controller doesn't support doorbells in memory. */
static void wrr_dbbuf_free(struct nvme_queue *nvmeq)
{
	struct nvme_queue *sq;
	int level = -1;

	nvme_dbbuf_free(nvmeq);
	if (!wrr_has_siblings(nvmeq))
		return;
	while ((sq = wrr_next(nvmeq, &level)))
		nvme_dbbuf_free(sq);
}

static void wrr_delete_created(struct nvme_queue *nvmeq)
{
	struct nvme_queue *sq;
	int level = -1;

	while ((sq = wrr_next(nvmeq, &level)))
		if (test_and_clear_bit(level, &nvmeq->wrr.created))
			adapter_delete_sq(nvmeq->dev, sq->qid);
}

/*
 * Creates the siblings on the controller, with the queue's completion queue. Returns 0, a negative
 * error or the controller's status; in both failures no sibling is left there.
 */
static int wrr_create_queue(struct nvme_queue *nvmeq)
{
	struct nvme_queue *sq;
	int level = -1;
	int result;

	nvmeq->wrr.created = 0;
	if (!wrr_has_siblings(nvmeq))
		return 0;
	while ((sq = wrr_next(nvmeq, &level))) {
		sq->qid = wrr_sqid(nvmeq, level);
		sq->wrr.level = level;
		sq->wrr.cqid = nvmeq->qid;
		result = adapter_alloc_sq(nvmeq->dev, sq->qid, sq);
		if (result) {
			wrr_delete_created(nvmeq);
			return result;
		}
		set_bit(level, &nvmeq->wrr.created);
	}
	return 0;
}

/*
 * A completion queue can be deleted only when no submission queue uses it, so the siblings go
 * first. Returns whether all were deleted within the time that the driver gives its own queues.
 */
static bool wrr_delete_siblings(struct nvme_dev *dev)
{
	unsigned long timeout = NVME_ADMIN_TIMEOUT;
	struct nvme_queue *nvmeq, *sq;
	unsigned int i;
	int level;

	if (!dev->wrr.on)
		return true;
	for (i = 1; i < dev->online_queues; i++) {
		nvmeq = &dev->queues[i];
		level = -1;
		while ((sq = wrr_next(nvmeq, &level))) {
			if (!test_and_clear_bit(level, &nvmeq->wrr.created))
				continue;
			if (nvme_delete_queue(sq, nvme_admin_delete_sq))
				return false;
			timeout = wait_for_completion_io_timeout(&sq->delete_done, timeout);
			if (!timeout)
				return false;
		}
	}
	return true;
}

/* Submission */

/* The submission queue of a request, which is stored with it: an abort must name it. */
static struct nvme_queue *wrr_choose(struct nvme_queue *nvmeq, struct request *req)
{
	struct nvme_iod *iod = blk_mq_rq_to_pdu(req);
	struct wrr *wrr = &nvmeq->dev->wrr;

	iod->wrr_level = WRR_OWN;
	iod->wrr_urgent = false;
	if (!wrr_has_siblings(nvmeq))
		return nvmeq;
	/* Without data, a request of 6.1 has the priority of the tag's former request. */
	iod->wrr_level = READ_ONCE(wrr->level[wrr_class(req->bio ? req_get_ioprio(req) : 0)]);
	if (iod->wrr_level == WRR_URGENT) {
		iod->wrr_urgent = true;
		if (READ_ONCE(wrr->cap)) {
			if (READ_ONCE(wrr->demoted))
				iod->wrr_level = WRR_HIGH;
			if (!timer_pending(&wrr->tick))
				mod_timer(&wrr->tick, jiffies + msecs_to_jiffies(WRR_TICK_MS));
		}
	}
	return wrr_sibling(nvmeq, iod->wrr_level);
}

/*
 * Locks the submission queue of a request, for one command, and unlocks @held: NULL, or the queue
 * locked for the command before. Sparse doesn't follow a lock from here to wrr_unlock_queue(), so
 * it is told that none is held in between.
 */
static struct nvme_queue *wrr_lock_queue(struct nvme_queue *nvmeq, struct nvme_queue *held,
					 struct request *req)
{
	struct nvme_queue *sq = wrr_choose(nvmeq, req);
	struct nvme_iod *iod = blk_mq_rq_to_pdu(req);

	if (sq != held) {
		if (held) {
			__acquire(&held->sq_lock);
			spin_unlock(&held->sq_lock);
		}
		spin_lock(&sq->sq_lock);
		__release(&sq->sq_lock);
	}
	if (wrr_has_siblings(nvmeq))
		WRITE_ONCE(sq->wrr.sent[iod->wrr_urgent], sq->wrr.sent[iod->wrr_urgent] + 1);
	return sq;
}

/* Rings the doorbells of those of the four that have commands not rung for yet. */
static void wrr_ring_siblings(struct nvme_queue *nvmeq)
{
	struct nvme_queue *sq;
	unsigned int level;

	if (!wrr_has_siblings(nvmeq))
		return;
	for (level = 0; level < WRR_LEVELS; level++) {
		sq = wrr_sibling(nvmeq, level);
		if (READ_ONCE(sq->sq_tail) == READ_ONCE(sq->last_sq_tail))
			continue;
		spin_lock(&sq->sq_lock);
		if (sq->sq_tail != sq->last_sq_tail)
			nvme_write_sq_db(sq, true);
		spin_unlock(&sq->sq_lock);
	}
}

/* Unlocks the queue that wrr_lock_queue() has locked, and if @last rings all four doorbells. */
static void wrr_unlock_queue(struct nvme_queue *nvmeq, struct nvme_queue *sq, bool last)
{
	__acquire(&sq->sq_lock);
	nvme_write_sq_db(sq, last);
	spin_unlock(&sq->sq_lock);
	if (last)
		wrr_ring_siblings(nvmeq);
}

/* The cap on urgent requests */

static void wrr_completed(struct nvme_queue *nvmeq, struct request *req)
{
	struct nvme_iod *iod = blk_mq_rq_to_pdu(req);

	if (wrr_has_siblings(nvmeq))
		WRITE_ONCE(nvmeq->wrr.done[iod->wrr_urgent], nvmeq->wrr.done[iod->wrr_urgent] + 1);
}

/* Commands sent and completed until now: of other classes [0] and urgent [1]. */
static void wrr_sum(struct nvme_dev *dev, unsigned long sent[2], unsigned long done[2])
{
	struct nvme_queue *nvmeq;
	unsigned int i, level, urgent;

	for (i = 1; i < dev->online_queues; i++) {
		nvmeq = &dev->queues[i];
		for (urgent = 0; urgent < 2; urgent++) {
			done[urgent] += READ_ONCE(nvmeq->wrr.done[urgent]);
			for (level = 0; level < WRR_LEVELS; level++)
				sent[urgent] +=
					READ_ONCE(wrr_sibling(nvmeq, level)->wrr.sent[urgent]);
		}
	}
}

/*
 * Other classes got @others of @all completions: returns whether they have had too few in the long
 * run. The cap is a promise, so the target is a twentieth above it.
 */
static bool wrr_too_few(struct wrr *wrr, long others, long all)
{
	wrr->debt += all * READ_ONCE(wrr->cap) - others * 95;
	wrr->debt = clamp(wrr->debt, -100L * WRR_CREDIT, 100L * WRR_MEMORY);
	return wrr->debt > 0;
}

static void wrr_begin_anew(struct wrr *wrr, const unsigned long done[2])
{
	memcpy(wrr->seen, done, sizeof(wrr->seen));
	wrr->debt = 0;
	wrr->window = 0;
	WRITE_ONCE(wrr->demoted, false);
}

/*
 * Completions count only while both wait, and not before the first look has seen them. When urgent
 * requests become high, earlier ones are still in the urgent queue: the next decision comes after
 * as many completions. Counts decrease in a reset.
 */
static void wrr_tick(struct timer_list *timer)
{
	struct nvme_dev *dev = container_of(timer, struct nvme_dev, wrr.tick);
	struct wrr *wrr = &dev->wrr;
	unsigned long sent[2] = { 0, 0 }, done[2] = { 0, 0 };
	long others, urgent, waiting;

	if (!wrr->on) {
		wrr->looking = false;
		return;
	}
	wrr_sum(dev, sent, done);
	others = done[0] - wrr->seen[0];
	urgent = done[1] - wrr->seen[1];
	waiting = sent[1] - done[1];
	if (others < 0 || urgent < 0 || !wrr->looking || waiting <= 0 || sent[0] == done[0] ||
	    !READ_ONCE(wrr->cap)) {
		wrr_begin_anew(wrr, done);
	} else if (others + urgent >= max(wrr->window, WRR_WINDOW)) {
		WRITE_ONCE(wrr->demoted, wrr_too_few(wrr, others, others + urgent));
		wrr->window = waiting;
		memcpy(wrr->seen, done, sizeof(done));
	}
	wrr->looking = waiting > 0;
	if (wrr->looking)
		mod_timer(timer, jiffies + msecs_to_jiffies(WRR_TICK_MS));
}

/* Settings */

static u32 wrr_feature(const struct wrr *wrr)
{
	return (wrr->weight[0] - 1) << 24 | (wrr->weight[1] - 1) << 16 | (wrr->weight[2] - 1) << 8 |
	       wrr->burst;
}

/* Sends the weights to the controller. Returns 0, a negative error or its status. */
static int wrr_tell(struct nvme_dev *dev)
{
	u32 result;

	lockdep_assert_held(&dev->wrr.lock);
	return nvme_set_features(&dev->ctrl, NVME_FEAT_ARBITRATION, wrr_feature(&dev->wrr), NULL, 0,
				 &result);
}

static bool wrr_is_there(const struct nvme_dev *dev)
{
	return dev->ctrl.cap & BIT_ULL(WRR_CAP_BIT);
}

/* Adds the mechanism to a configuration that enables the controller, or is for an enabled one. */
static u32 wrr_config(const struct nvme_dev *dev, u32 off, u32 val)
{
	return off == NVME_REG_CC && wrr_is_there(dev) ? val | NVME_CC_AMS_WRRU : val;
}

/* Shows the state in sysfs, and logs it if it has changed. */
static void wrr_say(struct nvme_dev *dev, const char *state)
{
	if (dev->wrr.state != state)
		dev_info(dev->ctrl.device, "weighted round robin: %s\n", state);
	WRITE_ONCE(dev->wrr.state, state);
}

/* Asks for queues as the stock driver does. */
static int wrr_without(struct nvme_dev *dev, unsigned int *count, const char *why)
{
	wrr_say(dev, why);
	return nvme_set_queue_count(&dev->ctrl, count);
}

/*
 * Whether to try again without the mechanism, since no queue has got its siblings. @count becomes
 * the number of queues then: as many as were granted and have doorbells.
 */
static bool wrr_give_up(struct nvme_dev *dev, unsigned int *count)
{
	if (!dev->wrr.on || dev->online_queues > 1)
		return false;
	dev->wrr.on = false;
	*count = min(dev->wrr.stock, WRR_LEVELS * dev->wrr.queues);
	wrr_say(dev, "off, no I/O queue could be given four submission queues");
	return true;
}

/* The I/O queues whose four doorbells all fit into the page of doorbells in memory. */
static unsigned int wrr_most_queues(const struct nvme_dev *dev)
{
	unsigned int doorbells = NVME_CTRL_PAGE_SIZE / (2 * sizeof(u32) * dev->db_stride);

	return dev->dbbuf_dbs ? (doorbells - 1) / WRR_LEVELS : U16_MAX;
}

/*
 * Asks the controller for @count I/O queues, and four times as many submission queues. @count
 * becomes what it grants. With fewer than four submission queues it is the stock driver's number.
 * Called when there are no I/O queues.
 */
static int wrr_set_queue_count(struct nvme_dev *dev, unsigned int *count)
{
	struct wrr *wrr = &dev->wrr;
	unsigned int most = wrr_most_queues(dev);
	u32 asked, granted;
	int status;

	wrr->on = false;
	if (!wrr_is_there(dev))
		return wrr_without(dev, count, "off, the controller has none (CAP.AMS)");
	if (!most)
		return wrr_without(dev, count, "off, its doorbells in memory are too far apart");
	*count = min(*count, most);
	asked = (*count * WRR_LEVELS - 1) | (*count - 1) << 16;
	status = nvme_set_features(&dev->ctrl, NVME_FEAT_NUM_QUEUES, asked, NULL, 0, &granted);
	if (status < 0)
		return status;
	if (status || (granted & 0xffff) + 1 < WRR_LEVELS)
		return wrr_without(dev, count,
				   "off, the controller grants fewer than four submission queues");
	wrr->stock = min3(*count, (granted & 0xffff) + 1, (granted >> 16) + 1);
	*count = min3(*count, ((granted & 0xffff) + 1) / WRR_LEVELS, (granted >> 16) + 1);
	wrr->queues = *count;
	wrr->on = true;
	mutex_lock(&wrr->lock);
	status = wrr_tell(dev);
	mutex_unlock(&wrr->lock);
	if (status < 0)
		return status;
	wrr_say(dev, status ? "on, but the controller keeps weights of its own" : "on");
	return 0;
}

/* Notes the number of I/O queues. Returns how many doorbells they need. */
static unsigned int wrr_doorbells(struct nvme_dev *dev, unsigned int queues)
{
	if (!dev->wrr.on)
		return queues;
	dev->wrr.queues = queues;
	return WRR_LEVELS * queues;
}

static const u8 wrr_levels[WRR_CLASSES] = {
	WRR_URGENT, WRR_HIGH,	WRR_HIGH,   WRR_HIGH,	WRR_HIGH,
	WRR_MEDIUM, WRR_MEDIUM, WRR_MEDIUM, WRR_MEDIUM, WRR_LOW,
};

/* Allocated together with the places of the driver's queues. Returns 0 or -ENOMEM. */
static int wrr_init(struct nvme_dev *dev, int node)
{
	struct wrr *wrr = &dev->wrr;

	wrr->sibling = kcalloc_node((size_t)dev->nr_allocated_queues * WRR_SIBLINGS,
				    sizeof(*wrr->sibling), GFP_KERNEL, node);
	if (!wrr->sibling)
		return -ENOMEM;
	memcpy(wrr->level, wrr_levels, sizeof(wrr->level));
	wrr->weight[0] = 64;
	wrr->weight[1] = 32;
	wrr->weight[2] = 8;
	wrr->cap = WRR_CAP_DEFAULT;
	wrr->state = "";
	mutex_init(&wrr->lock);
	timer_setup(&wrr->tick, wrr_tick, 0);
	return 0;
}

static void wrr_exit(struct nvme_dev *dev)
{
	timer_shutdown_sync(&dev->wrr.tick);
	kfree(dev->wrr.sibling);
}

static unsigned long wrr_quirks(struct pci_dev *pdev)
{
	const struct pci_device_id *id = pci_match_id(nvme_id_table, pdev);

	return id ? id->driver_data : 0;
}

/* sysfs: /sys/class/nvme/nvmeN/wrr/ */

static const char *const wrr_names[WRR_LEVELS] = { "urgent", "high", "medium", "low" };

static struct wrr *wrr_of(struct device *device)
{
	struct nvme_ctrl *ctrl = dev_get_drvdata(device);

	return &to_nvme_dev(ctrl)->wrr;
}

static ssize_t state_show(struct device *device, struct device_attribute *attr, char *page)
{
	return sysfs_emit(page, "%s\n", READ_ONCE(wrr_of(device)->state));
}
static DEVICE_ATTR_RO(state);

/*
 * Weights and burst that the controller accepts are kept, and sent again after each reset. They are
 * sent to it at once, and if it refuses them nothing changes: -EIO. In the middle of a reset it
 * can't be asked: -EBUSY.
 */
static int wrr_set(struct device *device, const unsigned int weight[WRR_WEIGHTS],
		   unsigned int burst)
{
	struct nvme_ctrl *ctrl = dev_get_drvdata(device);
	struct nvme_dev *dev = to_nvme_dev(ctrl);
	struct wrr *wrr = &dev->wrr;
	unsigned int before_burst = wrr->burst, before[WRR_WEIGHTS];
	int error = 0;

	lockdep_assert_held(&wrr->lock);
	if (!wrr_is_there(dev))
		return -EOPNOTSUPP;
	if (READ_ONCE(ctrl->state) != NVME_CTRL_LIVE)
		return -EBUSY;
	memcpy(before, wrr->weight, sizeof(before));
	memmove(wrr->weight, weight, sizeof(before));
	wrr->burst = burst;
	if (wrr->on && wrr_tell(dev)) {
		memcpy(wrr->weight, before, sizeof(before));
		wrr->burst = before_burst;
		error = -EIO;
	}
	return error;
}

static ssize_t weights_show(struct device *device, struct device_attribute *attr, char *page)
{
	struct wrr *wrr = wrr_of(device);
	ssize_t length;

	mutex_lock(&wrr->lock);
	length = sysfs_emit(page, "%u %u %u\n", wrr->weight[0], wrr->weight[1], wrr->weight[2]);
	mutex_unlock(&wrr->lock);
	return length;
}

/* "HIGH MEDIUM LOW". One digit more than a weight may have is parsed, so that it is refused. */
static ssize_t weights_store(struct device *device, struct device_attribute *attr, const char *text,
			     size_t length)
{
	struct wrr *wrr = wrr_of(device);
	unsigned int weight[WRR_WEIGHTS], i;
	int error, first, second;
	char rest;

	if (sscanf(text, "%4u%n %4u%n %4u %c", &weight[0], &first, &weight[1], &second, &weight[2],
		   &rest) != 3 ||
	    !isspace(text[first]) || !isspace(text[second]))
		return -EINVAL;
	for (i = 0; i < WRR_WEIGHTS; i++)
		if (!weight[i] || weight[i] > WRR_WEIGHT_MAX)
			return -ERANGE;
	mutex_lock(&wrr->lock);
	error = wrr_set(device, weight, wrr->burst);
	mutex_unlock(&wrr->lock);
	return error ?: length;
}
static DEVICE_ATTR_RW(weights);

/* Commands fetched from one queue in turn, as a power of two; WRR_BURST_MAX: no limit. */
static ssize_t burst_show(struct device *device, struct device_attribute *attr, char *page)
{
	return sysfs_emit(page, "%u\n", READ_ONCE(wrr_of(device)->burst));
}

static ssize_t burst_store(struct device *device, struct device_attribute *attr, const char *text,
			   size_t length)
{
	struct wrr *wrr = wrr_of(device);
	unsigned int burst;
	int error = kstrtouint(text, 10, &burst);

	if (error)
		return error;
	if (burst > WRR_BURST_MAX)
		return -ERANGE;
	mutex_lock(&wrr->lock);
	error = wrr_set(device, wrr->weight, burst);
	mutex_unlock(&wrr->lock);
	return error ?: length;
}
static DEVICE_ATTR_RW(burst);

static ssize_t cap_show(struct device *device, struct device_attribute *attr, char *page)
{
	return sysfs_emit(page, "%u\n", READ_ONCE(wrr_of(device)->cap));
}

static ssize_t cap_store(struct device *device, struct device_attribute *attr, const char *text,
			 size_t length)
{
	unsigned int cap;
	int error = kstrtouint(text, 10, &cap);

	if (error)
		return error;
	if (cap > WRR_CAP_MAX)
		return -ERANGE;
	WRITE_ONCE(wrr_of(device)->cap, cap);
	return length;
}
static DEVICE_ATTR_RW(cap);

/* The level of each: real-time, best-effort 0 to 7, idle. */
static ssize_t classes_show(struct device *device, struct device_attribute *attr, char *page)
{
	struct wrr *wrr = wrr_of(device);
	ssize_t length = 0;
	unsigned int i;

	for (i = 0; i < WRR_CLASSES; i++)
		length += sysfs_emit_at(page, length, "%s%c", wrr_names[READ_ONCE(wrr->level[i])],
					i + 1 < WRR_CLASSES ? ' ' : '\n');
	return length;
}

static int wrr_parse_classes(char *text, u8 *level)
{
	unsigned int count = 0;
	char *word;
	int found;

	while ((word = strsep(&text, "\n "))) {
		if (!*word)
			continue;
		found = match_string(wrr_names, WRR_LEVELS, word);
		if (found < 0 || count == WRR_CLASSES)
			return -EINVAL;
		level[count++] = found;
	}
	return count == WRR_CLASSES ? 0 : -EINVAL;
}

static ssize_t classes_store(struct device *device, struct device_attribute *attr, const char *text,
			     size_t length)
{
	struct wrr *wrr = wrr_of(device);
	char *copy = kstrndup(text, length, GFP_KERNEL);
	u8 level[WRR_CLASSES];
	unsigned int i;
	int error;

	if (!copy)
		return -ENOMEM;
	error = wrr_parse_classes(copy, level);
	for (i = 0; !error && i < WRR_CLASSES; i++)
		WRITE_ONCE(wrr->level[i], level[i]);
	kfree(copy);
	return error ?: length;
}
static DEVICE_ATTR_RW(classes);

static struct attribute *wrr_attrs[] = {
	&dev_attr_state.attr, &dev_attr_weights.attr, &dev_attr_burst.attr,
	&dev_attr_cap.attr,   &dev_attr_classes.attr, NULL,
};

static const struct attribute_group wrr_attr_group = {
	.name = "wrr",
	.attrs = wrr_attrs,
};
