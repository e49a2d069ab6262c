#include "supervisor/config_words.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS "\t\n "
#define PLAIN  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./{}-"

/* Where words go; text NULL while they are only measured. */
struct sink {
	char *text;
	size_t bytes;
};

static void
put(struct sink *sink, char c)
{
	if (sink->text != NULL)
		sink->text[sink->bytes] = c;
	sink->bytes++;
}

/* The bytes between the quote at p and its partner, which is returned; NULL if there is none. */
static const char *
take_quoted(const char *p, struct sink *sink)
{
	char quote = *p++;

	for (; *p != '\0' && *p != quote; p++) {
		if (quote == '"' && *p == '\\' && p[1] != '\0' && strchr("\"\\$`", p[1]) != NULL)
			p++;
		put(sink, *p);
	}
	return *p == quote ? p : NULL;
}

/* One word from *text on, which is moved behind it. NULL, or what is wrong at *text. */
static const char *
take_word(const char **text, struct sink *sink)
{
	const char *p, *end;

	for (p = *text; *p != '\0' && strchr(BLANKS, *p) == NULL; p++) {
		*text = p;
		if (*p == '\'' || *p == '"') {
			end = take_quoted(p, sink);
			if (end == NULL)
				return *p == '"' ? "this \" is never closed"
						 : "this ' is never closed";
			p = end;
		} else if (*p == '\\' && *++p == '\0') {
			return "nothing follows this backslash";
		} else {
			put(sink, *p);
		}
	}
	put(sink, '\0');
	*text = p;
	return NULL;
}

/* Every word of text, with the place of each in words[] unless that is NULL. -1: *error says. */
static int
take_words(const char *text, struct sink *sink, char **words, size_t *count,
	   struct words_error *error)
{
	const char *p = text;

	*count = 0;
	for (p += strspn(p, BLANKS); *p != '\0'; p += strspn(p, BLANKS)) {
		if (words != NULL)
			words[*count] = sink->text + sink->bytes;
		error->what = take_word(&p, sink);
		if (error->what != NULL) {
			error->position = (size_t)(p - text) + 1;
			return -1;
		}
		(*count)++;
	}
	return 0;
}

char **
words_split(const char *text, size_t *count, struct words_error *error)
{
	struct sink sink = {NULL, 0};
	char **words;

	if (take_words(text, &sink, NULL, count, error) != 0)
		return NULL;
	words = malloc((*count + 1) * sizeof(*words) + sink.bytes);
	if (words == NULL) {
		*error = (struct words_error){1, "out of memory"};
		return NULL;
	}
	sink = (struct sink){(char *)(words + *count + 1), 0};
	take_words(text, &sink, words, count, error);
	words[*count] = NULL;
	return words;
}

static void
put_quoted(const char *word, struct sink *sink)
{
	bool plain = *word != '\0' && word[strspn(word, PLAIN)] == '\0';

	if (!plain)
		put(sink, '\'');
	for (; *word != '\0'; word++) {
		if (*word == '\'') {
			put(sink, '\'');
			put(sink, '\\');
			put(sink, '\'');
		}
		put(sink, *word);
	}
	if (!plain)
		put(sink, '\'');
}

static void
put_all_quoted(char *const *words, struct sink *sink)
{
	for (size_t i = 0; words[i] != NULL; i++) {
		if (i > 0)
			put(sink, ' ');
		put_quoted(words[i], sink);
	}
	put(sink, '\0');
}

char *
words_quote(char *const *words)
{
	struct sink sink = {NULL, 0};

	put_all_quoted(words, &sink);
	sink = (struct sink){malloc(sink.bytes), 0};
	if (sink.text != NULL)
		put_all_quoted(words, &sink);
	return sink.text;
}
