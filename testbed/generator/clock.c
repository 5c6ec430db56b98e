// SPDX-License-Identifier: Apache-2.0
/*
 * Clock: answers each line with the time, so that machines can compare their clocks.
 */
#include "util.h"

#include <inttypes.h>
#include <stdio.h>

int clock_main(int argc, char **argv)
{
	int c;

	if (argc > 1)
		die(false, "clock takes no options: '%s'", argv[1]);
	while ((c = getchar()) != EOF) {
		if (c != '\n')
			continue;
		printf("%" PRId64 "\n", now_ns());
		fflush(stdout);
	}
	return 0;
}
