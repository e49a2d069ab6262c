#include "supervisor/config_ini.h"

#include "supervisor/config_store.h"

#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS     " \t"
#define NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
#define STAND_IN   "value"
#define BOM        "\xef\xbb\xbf"

struct input {
	FILE *file;
	struct config_place place;
	char *text;        /* the line, [INI_LINE_MAX_BYTES + 1] */
	const char *value; /* within text: what STAND_IN stands for */
	ini_take take;
	void *arg;
	struct config_error *error;
	bool failed;
};

#define FAIL(input, ...)                                                                           \
	((input)->failed = true, config_fail((input)->error, &(input)->place, __VA_ARGS__))

/* The next line without its end into input->text. False at the end of the file or on an error. */
static bool
read_line(struct input *input)
{
	size_t n = 0;
	int c;

	input->place.line++;
	while ((c = getc_unlocked(input->file)) != EOF && c != '\n') {
		if (n == INI_LINE_MAX_BYTES) {
			FAIL(input, "the line is longer than %d bytes", INI_LINE_MAX_BYTES);
			return false;
		}
		input->text[n++] = (char)c;
	}
	if (ferror(input->file)) {
		input->place.line = 0;
		FAIL(input, "%s", strerror(errno));
		return false;
	}
	if (n > 0 && input->text[n - 1] == '\r')
		n--;
	input->text[n] = '\0';
	for (size_t i = 0; i < n; i++) {
		unsigned char byte = (unsigned char)input->text[i];

		if ((byte < ' ' && byte != '\t') || byte == 0x7f) {
			FAIL(input, "byte 0x%02x at column %zu: the file is not plain text", byte,
			     i + 1);
			return false;
		}
	}
	return c != EOF || n > 0;
}

static void
trim_end(char *text)
{
	size_t n = strlen(text);

	while (n > 0 && strchr(BLANKS, text[n - 1]) != NULL)
		text[--n] = '\0';
}

static int
take_section(struct input *input, char *text, char *out, size_t size)
{
	char *end = strchr(text, ']');

	if (end == NULL)
		return FAIL(input, "the section has no closing ]");
	if (end[1] != '\0')
		return FAIL(input,
			    "a comment needs a line of its own: \"%.80s\" follows the section",
			    end + 1 + strspn(end + 1, BLANKS));
	*end = '\0';
	if (input->take(input->arg, text + 1, NULL, NULL, input->place.line, input->error) != 0) {
		input->failed = true;
		return -1;
	}
	if ((size_t)snprintf(out, size, "[%s]\n", text + 1) >= size)
		return FAIL(input, "the section's name is too long");
	return 0;
}

static int
take_key(struct input *input, char *text, char *out, size_t size)
{
	char *equals = strchr(text, '='), shown[CONFIG_SHOWN_BYTES];

	if (equals == NULL)
		return FAIL(input, "\"%s\" is neither [section] nor key = value",
			    config_shown(text, shown));
	*equals = '\0';
	trim_end(text);
	if (*text == '\0' || text[strspn(text, NAME_BYTES)] != '\0')
		return FAIL(input, "\"%s\" is no name: write key = value",
			    config_shown(text, shown));
	input->value = equals + 1 + strspn(equals + 1, BLANKS);
	if (strlen(text) > INI_NAME_MAX_BYTES ||
	    (size_t)snprintf(out, size, "%s=" STAND_IN "\n", text) >= size)
		return FAIL(input, "the name \"%s\" is longer than %d bytes",
			    config_shown(text, shown), INI_NAME_MAX_BYTES);
	return 0;
}

/* What inih gets to see of the line in input->text. */
static int
take_line(struct input *input, char *out, size_t size)
{
	char *text = input->text;
	size_t indent;

	if (input->place.line == 1 && strncmp(text, BOM, strlen(BOM)) == 0)
		text += strlen(BOM);
	trim_end(text);
	indent = strspn(text, BLANKS);
	snprintf(out, size, "\n");
	if (text[indent] == '\0' || strchr("#;", text[indent]) != NULL)
		return 0;
	if (indent > 0)
		return FAIL(input, "the line is indented: keys, sections and values start at the "
				   "first column, a value ends with its line");
	if (*text == '[')
		return take_section(input, text, out, size);
	return take_key(input, text, out, size);
}

/* For ini_parse_stream(): as fgets(). */
static char *
read_for_inih(char *out, int size, void *arg)
{
	struct input *input = arg;

	if (input->failed || !read_line(input) || take_line(input, out, (size_t)size) != 0)
		return NULL;
	return out;
}

/* From inih, for the line that was read last. `name` is NULL where inih was built to tell sections.
 */
static int
take_from_inih(void *arg, const char *section, const char *name, const char *stand_in)
{
	struct input *input = arg;

	(void)stand_in;
	if (name == NULL || input->failed)
		return 1;
	if (input->take(input->arg, section, name, input->value, input->place.line, input->error) !=
	    0)
		input->failed = true;
	return !input->failed;
}

int
config_ini_read(FILE *file, const char *path, ini_take take, void *arg, struct config_error *error)
{
	struct input input = {
	    .file = file,
	    .place = {.file = path},
	    .text = malloc(INI_LINE_MAX_BYTES + 1),
	    .take = take,
	    .arg = arg,
	    .error = error,
	};
	int r;

	if (input.text == NULL)
		return config_fail_memory(error);
	r = ini_parse_stream(read_for_inih, &input, take_from_inih, &input);
	if (r != 0 && !input.failed)
		FAIL(&input, "inih cannot read this line");
	free(input.text);
	return input.failed ? -1 : 0;
}
