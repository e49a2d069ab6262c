#include "common/reason.h"

#include <string.h>

static const struct {
	const char *word;
	int status;
} table[REASON_COUNT] = {
#define X(id, word, status) [REASON_##id] = {word, status},
    REASONS(X)
#undef X
};

const char *
reason_word(enum reason reason)
{
	return table[reason].word;
}

int
reason_exit_status(enum reason reason)
{
	return table[reason].status;
}

bool
reason_from_word(const char *word, enum reason *reason)
{
	for (int i = REASON_NONE + 1; i < REASON_COUNT; i++) {
		if (strcmp(word, table[i].word) == 0) {
			*reason = (enum reason)i;
			return true;
		}
	}
	return false;
}
