#include "worker/load_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The text goes to terminals and, as one line, to the link: a name must not break either. */
static void
make_one_line(char *text)
{
	size_t n = strlen(text);

	for (char *p = text; *p != '\0'; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	if (n < LOAD_ERROR_BYTES - 1)
		return;
	while (n > 0 && ((unsigned char)text[n - 1] & 0xc0) == 0x80)
		n--;
	if (n > 0 && (unsigned char)text[n - 1] >= 0xc0)
		n--;
	text[n] = '\0';
}

int
load_error_set(struct load_error *error, int error_number, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (error == NULL)
		return -1;
	error->error_number = error_number;
	va_start(ap, fmt);
	vsnprintf(error->text, sizeof(error->text), fmt, ap);
	va_end(ap);
	n = strlen(error->text);
	if (error_number != 0)
		snprintf(error->text + n, sizeof(error->text) - n, ": %s", strerror(error_number));
	make_one_line(error->text);
	return -1;
}
