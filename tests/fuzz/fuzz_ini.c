/* sources: supervisor/config*.c supervisor/bound.c supervisor/environ.c supervisor/gpus.c */
/* An INI file: what loads can be printed and started from, what does not has a printable error. */
#include "supervisor/config.h"

#include "supervisor/environ.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
use(struct config *config)
{
	const struct environ_values values = {
	    .world_size = config->ranks, .epoch = 1, .link_fd = 9};
	struct config_error error;
	FILE *out;

	if (config->ranks == 0 && config_set_ranks(config, 2, &error) != 0)
		return;
	out = fopen("/dev/null", "w");
	if (out != NULL) {
		config_print(config, out);
		fclose(out);
	}
	free(argv_build(config, config->ranks - 1, &values));
	free(environ_build(config, config->ranks - 1, &values));
}

static void
check_error(const struct config_error *error)
{
	size_t len = strlen(error->text);

	if (strncmp(error->text, "fuzz.ini", 8) != 0 || len >= sizeof(error->text))
		abort();
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)error->text[i] < ' ' || error->text[i] == 0x7f)
			abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config_error error = {""};
	struct config config;
	FILE *file;

	if (size == 0)
		return 0;
	file = fmemopen((void *)(uintptr_t)data, size, "r");
	if (file == NULL)
		abort();
	if (config_load_stream(file, "fuzz.ini", NULL, 0, &config, &error) == 0) {
		use(&config);
		config_free(&config);
	} else {
		check_error(&error);
	}
	fclose(file);
	return 0;
}
