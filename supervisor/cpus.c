#include "supervisor/cpus.h"

#include <stdlib.h>
#include <string.h>

bool
cpus_parse(const char *list, cpu_set_t *set)
{
	cpu_set_t ours, asked;

	if (list == NULL || strcmp(list, "auto") == 0 ||
	    sched_getaffinity(0, sizeof(ours), &ours) != 0)
		return false;
	CPU_ZERO(&asked);
	for (const char *p = list; *p != '\0';) {
		char *end;
		long first = strtol(p, &end, 10), last = first;

		if (end == p)
			return false;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
			CPU_SET((size_t)cpu, &asked);
		p = end + strspn(end, ", ");
	}
	CPU_AND(set, &ours, &asked);
	return CPU_COUNT(set) > 0;
}
