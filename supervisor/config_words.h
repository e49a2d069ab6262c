/* Words as a shell quotes them, without a shell: quotes and backslashes, no expansion of any kind.
 */
#ifndef SUPERVISOR_CONFIG_WORDS_H
#define SUPERVISOR_CONFIG_WORDS_H

#include <stddef.h>

struct words_error {
	size_t position;  /* byte of the text, from 1 */
	const char *what; /* static storage */
};

/*
 * Splits text at blanks. '...' is literal, "..." knows \" \\ \$ and \`, elsewhere \x is x. Returns
 * a NULL-terminated array in one block, to be given to free(), and its length in *count; NULL with
 * *error filled if a quote or backslash is left open or memory ran out.
 */
char **words_split(const char *text, size_t *count, struct words_error *error);

/* The text that words_split() takes apart into just these words; to be given to free(), or NULL. */
char *words_quote(char *const *words);

#endif
