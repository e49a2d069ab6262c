/* What no key shows by itself: whether the values go together and name what exists. */
#ifndef SUPERVISOR_CONFIG_CHECK_H
#define SUPERVISOR_CONFIG_CHECK_H

#include "supervisor/config_store.h"

/* 0, or -1 with *error naming the place of the value at fault. */
int config_check(const struct config *config, struct config_error *error);

#endif
