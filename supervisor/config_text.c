#include "supervisor/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES      16
#define NEAREST_MAX_BYTES 64 /* no word of ours is longer */

/* What the brace at `text` stands for, NULL if it is none of ours or not known yet. */
static const char *
brace_value(const char *text, size_t *len, const struct brace_values *values, char *number)
{
	const struct {
		const char *brace, *text;
		int number;
	} known[] = {
	    {"{rank}", NULL, values->rank},
	    {"{local_rank}", NULL, values->local_rank},
	    {"{world_size}", NULL, values->world_size},
	    {"{gpu}", values->gpu, -1},
	    {"{epoch}", NULL, values->epoch > 0 ? (int)values->epoch : -1},
	    {"{master_addr}", values->master_addr, -1},
	    {"{master_port}", NULL, values->master_port > 0 ? values->master_port : -1},
	    {"{run_dir}", values->run_dir, -1},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		*len = strlen(known[i].brace);
		if (strncmp(text, known[i].brace, *len) != 0)
			continue;
		if (known[i].text != NULL || known[i].number < 0)
			return known[i].text;
		snprintf(number, NUMBER_BYTES, "%d", known[i].number);
		return number;
	}
	return NULL;
}

size_t
brace_fill_into(char *out, const char *text, const struct brace_values *values)
{
	char number[NUMBER_BYTES];
	const char *value;
	size_t n = 0, len, skip;

	while (*text != '\0') {
		skip = 1;
		value = *text == '{' ? brace_value(text, &skip, values, number) : NULL;
		if (value == NULL) {
			value = text;
			skip = len = 1 + strcspn(text + 1, "{");
		} else {
			len = strlen(value);
		}
		if (out != NULL)
			memcpy(out + n, value, len);
		n += len;
		text += skip;
	}
	if (out != NULL)
		out[n] = '\0';
	return n + 1;
}

char *
brace_fill(const char *text, const struct brace_values *values)
{
	char *out = malloc(brace_fill_into(NULL, text, values));

	if (out != NULL)
		brace_fill_into(out, text, values);
	return out;
}

static size_t
least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Insertions, deletions, changes and swaps of neighbours that lead from a to b; case is free. */
static size_t
distance(const char *a, const char *b)
{
	size_t rows[3][NEAREST_MAX_BYTES + 1], *before = rows[0], *last = rows[1], *row = rows[2];
	size_t *spare, len = strlen(b), cost;

	for (size_t j = 0; j <= len; j++)
		last[j] = j;
	for (size_t i = 1; a[i - 1] != '\0'; i++) {
		row[0] = i;
		for (size_t j = 1; j <= len; j++) {
			cost = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
			row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + cost);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
		spare = before;
		before = last;
		last = row;
		row = spare;
	}
	return last[len];
}

const char *
nearest_word(const char *word, const char *const *words, size_t len)
{
	size_t best = least(strlen(word) / 3 + 1, 3) + 1, d;
	const char *nearest = NULL;

	if (strlen(word) > NEAREST_MAX_BYTES)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		if (strlen(words[i]) > NEAREST_MAX_BYTES)
			continue;
		d = distance(word, words[i]);
		if (d < best && d < strlen(words[i])) {
			best = d;
			nearest = words[i];
		}
	}
	return nearest;
}
