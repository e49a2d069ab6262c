/*
 * Time: every moment is nanoseconds of CLOCK_MONOTONIC, every wait has one absolute deadline.
 * 0 stands for "no deadline".
 */
#ifndef COMMON_DEADLINE_H
#define COMMON_DEADLINE_H

#include <stdint.h>

#define NS_PER_USEC UINT64_C(1000)
#define NS_PER_MSEC UINT64_C(1000000)
#define NS_PER_SEC  UINT64_C(1000000000)

/* Now. */
uint64_t monotonic_ns(void);

/* now + timeout_ns, 0 (off) if timeout_ns is 0; saturates instead of wrapping. */
uint64_t deadline_after(uint64_t now_ns, uint64_t timeout_ns);

/* Milliseconds left for poll(2): -1 if off, 0 if passed, else rounded up and at most INT_MAX. */
int deadline_poll_ms(uint64_t deadline_ns, uint64_t now_ns);

#endif
