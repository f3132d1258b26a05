# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# What scripts in a guest share: . ./lib.sh
