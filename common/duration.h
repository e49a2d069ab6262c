/* Durations as people and INI files write them: whole numbers of ms, s, m and h. */
#ifndef COMMON_DURATION_H
#define COMMON_DURATION_H

#include <stddef.h>
#include <stdint.h>

#define DURATION_TEXT_BYTES 32 /* the longest text of format_duration, with its NUL */

/*
 * "0", "1500ms", "35s", "3m10s", "1h": exact to the millisecond below a minute, to the second from
 * there on. parse_duration reads it back. Who shows elapsed time rounds it to seconds first.
 */
void format_duration(uint64_t ns, char *out, size_t size);

/*
 * "500ms", "2s", "10m", "1h", also "1h30m", units falling. A bare number other than 0, a sign, a
 * fraction, white space and what does not fit into 64 bits of nanoseconds are refused: -1 and *ns
 * untouched.
 */
int parse_duration(const char *text, uint64_t *ns);

#endif
