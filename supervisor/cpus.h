/* CPU lists such as 0-3,8. */
#ifndef SUPERVISOR_CPUS_H
#define SUPERVISOR_CPUS_H

#include <sched.h>
#include <stdbool.h>

/*
 * Fills *set with the list, within the CPUs that we may use. False for "auto", NULL and lists that
 * leave no CPU: the rank gets ours.
 */
bool cpus_parse(const char *list, cpu_set_t *set);

#endif
