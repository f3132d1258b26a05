# SPDX-License-Identifier: GPL-2.0-only
# The verbs. Each prepares what it needs, and says what it installs before it does.
# Times are for two slow processors, the first time; what has been measured is not measured again.

.PHONY: help bench bench-all check check-full check-kernels check-planted deb modules site style install

help: ## what there is, and how long it takes
	@sed -n 's/^\([a-z-]*\):.* ## /  make \1	/p' Makefile | expand -t 22

bench: ## the main jobs, a database beside tar, a copy and a backup: 20 minutes, then 10 seconds
	./sluice run bench-copy bench

bench-all: ## the same with every cell and claim, in longer runs: 2 hours
	./sluice run prio-mix prio-devices

# What has passed before with the same inputs is not run again. T=mq-prio: only tests
# whose names have that, as pytest's -k.
check: style ## style and the tests: half an hour, then 3 minutes; T=mq-prio: those of one area
	./sluice test $(if $(T),-k '$(T)')

check-full: style ## the same with the tests that take long, on a debug kernel too: hours
	./sluice test --full $(if $(T),-k '$(T)')

check-planted: ## bugs that are planted in modules make the guests' tests fail: 2 hours
	./sluice test --planted $(if $(T),-k '$(T)')

check-kernels: ## the modules are built for every kernel that Debian offers: 15 minutes
	./sluice test --full -k each_kernel_of_a_suite

modules: ## the modules for every kernel of the lab: 5 minutes
	./sluice build

deb: ## the Debian packages, in build/deb: 2 minutes
	./sluice deb

site: ## the pages of docs/ as a site: seconds
	./sluice site

style: ## every checker of style over the whole tree: 5 minutes, then 1
	./sluice style

install: ## builds the modules for the running kernel and installs them, as root: 1 minute
	$(MAKE) -C kernel install
