/* SPDX-License-Identifier: GPL-2.0-only */
/* A round in each of the formats. */
#ifndef PRINT_H
#define PRINT_H

#include <stdio.h>

void print_text(FILE *out);
void print_json(FILE *out);
void print_csv(FILE *out);
void print_openmetrics(FILE *out);

#endif
