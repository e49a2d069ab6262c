#include "supervisor/bound.h"

static const struct {
	const char *word, *key;
	uint64_t default_ns;
} table[BOUND_COUNT] = {
#define X(id, word, key, timeout) [BOUND_##id] = {word, key, timeout},
    BOUNDS(X)
#undef X
};

const char *
bound_word(enum bound bound)
{
	return table[bound].word;
}

const char *
bound_key(enum bound bound)
{
	return table[bound].key;
}

uint64_t
bound_default_ns(enum bound bound)
{
	return table[bound].default_ns;
}
