# SPDX-License-Identifier: GPL-2.0-only
# The verbs. Each prepares what it needs; a second run starts at once.

.PHONY: bench check check-full modules style install

# The main job: every scheduler beside every other on the database-and-backup mix.
bench:
	./sluice run prio-mix prio-devices

check: style
	./sluice test

# As check, with the tests that take long.
check-full: style
	./sluice test --full

# The modules for every kernel of the lab.
modules:
	./sluice build

style:
	./sluice style

# Builds for the running kernel, from its own headers, and installs.
install:
	$(MAKE) -C kernel install
