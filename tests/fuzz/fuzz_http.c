/* sources: supervisor/http_request.c */
#include "supervisor/http_request.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was decided of a request's beginning is not undone by what follows. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_request part, whole;
	char *text;
	int early, late;

	text = malloc(size + 1);
	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	late = http_request_parse(text, size, &whole);
	assert(late == 0 || late == 200 || (late >= 400 && late < 600));
	assert(late != 200 || whole.len <= size);
	early = http_request_parse(text, size / 2, &part);
	assert(early == 0 || early == late);
	free(text);
	return 0;
}
