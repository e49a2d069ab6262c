/* Text that others wrote, made fit for a terminal or for JSON. */
#ifndef SUPERVISOR_CLEAN_H
#define SUPERVISOR_CLEAN_H

#include <stdbool.h>
#include <stddef.h>

#define CLEAN_GROWTH_BYTES 8 /* out needs len + this at most */

/*
 * Writes text[0..len) into out[0..len + CLEAN_GROWTH_BYTES): tabs stay, bytes that are not UTF-8
 * and control characters become '?', escape sequences vanish; but with `color` those that only
 * colour stay and end with the text. Returns the length; no NUL is added.
 */
size_t clean_terminal(const char *text, size_t len, bool color, char *out);

/* The same for JSON: bytes that are not UTF-8 become '?', all else stays. */
size_t clean_utf8(const char *text, size_t len, char *out);

#endif
