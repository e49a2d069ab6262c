#include "supervisor/environ.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VISIBLE_DEVICES "CUDA_VISIBLE_DEVICES"

/* One block: the array, then the bytes of the strings that are made. */
struct block {
	char **words; /* NULL while it is only measured */
	size_t count;
	char *text;
	size_t bytes;
};

static void
add_shared(struct block *block, char *word)
{
	if (block->words != NULL)
		block->words[block->count] = word;
	block->count++;
}

/* name=text, name NULL: text alone; braces NULL: text as it is. A text of NULL adds nothing. */
static void
add_text(struct block *block, const char *name, const char *text, const struct brace_values *braces)
{
	size_t len = name != NULL ? strlen(name) + 1 : 0;
	char *out = NULL, *value = NULL;

	if (text == NULL)
		return;
	if (block->words != NULL) {
		out = block->text + block->bytes;
		value = out + len;
	}
	add_shared(block, out);
	if (out != NULL && name != NULL) {
		memcpy(out, name, len - 1);
		out[len - 1] = '=';
	}
	block->bytes += len;
	if (braces != NULL && strchr(text, '{') != NULL) {
		block->bytes += brace_fill_into(value, text, braces);
		return;
	}
	len = strlen(text) + 1;
	if (value != NULL)
		memcpy(value, text, len);
	block->bytes += len;
}

static void
add_number(struct block *block, const char *name, long long number)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", number);
	add_text(block, name, text, NULL);
}

/* Gives the measured block its memory. */
static bool
block_allocate(struct block *block)
{
	block->words = malloc((block->count + 1) * sizeof(*block->words) + block->bytes);
	if (block->words == NULL)
		return false;
	block->text = (char *)(block->words + block->count + 1);
	block->words[block->count] = NULL;
	block->count = block->bytes = 0;
	return true;
}

bool
environ_is_computed(const char *name, size_t len)
{
	static const char *const names[] = {"RANK",
					    "LOCAL_RANK",
					    "WORLD_SIZE",
					    "LOCAL_WORLD_SIZE",
					    "GROUP_RANK",
					    "ROLE_RANK",
					    "ROLE_NAME",
					    "ROLE_WORLD_SIZE",
					    "GROUP_WORLD_SIZE",
					    "MASTER_ADDR",
					    "MASTER_PORT",
					    "TORCHELASTIC_RESTART_COUNT",
					    "TORCHELASTIC_MAX_RESTARTS",
					    "TORCHELASTIC_RUN_ID",
					    "TORCHELASTIC_ERROR_FILE",
					    "NOTIFY_SOCKET"};

	if (len == 0 || strchr("GLMNRTW", *name) == NULL)
		return false;
	if (strncmp(name, "TFRANK_", 7) == 0)
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strncmp(names[i], name, len) == 0 && names[i][len] == '\0')
			return true;
	}
	return false;
}

/* True if "NAME=value" of our environment goes on to a rank. */
static bool
is_inherited(const struct config *config, const char *variable, const struct environ_values *values)
{
	size_t len = (size_t)(strchrnul(variable, '=') - variable);

	if (environ_is_computed(variable, len) || strncmp(variable, "WATCHDOG_", 9) == 0 ||
	    strncmp(variable, "LISTEN_", 7) == 0)
		return false;
	if (values->visible_devices != NULL && len == strlen(VISIBLE_DEVICES) &&
	    strncmp(variable, VISIBLE_DEVICES, len) == 0)
		return false;
	for (size_t i = 0; i < config->environment_len; i++) {
		const char *name = config->environment[i].name;

		if (name[0] == variable[0] && strncmp(name, variable, len) == 0 &&
		    name[len] == '\0')
			return false;
	}
	return true;
}

/* As torchrun sets them for one node. */
static void
add_torch(struct block *block, const struct config *config, int rank,
	  const struct environ_values *values)
{
	add_number(block, "RANK", rank);
	add_number(block, "LOCAL_RANK", rank);
	add_number(block, "WORLD_SIZE", values->world_size);
	add_number(block, "LOCAL_WORLD_SIZE", values->world_size);
	add_number(block, "GROUP_RANK", 0);
	add_number(block, "GROUP_WORLD_SIZE", 1);
	add_number(block, "ROLE_RANK", rank);
	add_text(block, "ROLE_NAME", "default", NULL);
	add_number(block, "ROLE_WORLD_SIZE", values->world_size);
	add_text(block, "MASTER_ADDR", values->master_addr, NULL);
	if (values->master_port > 0)
		add_number(block, "MASTER_PORT", values->master_port);
	if (values->epoch > 0)
		add_number(block, "TORCHELASTIC_RESTART_COUNT", values->epoch - 1);
	add_number(block, "TORCHELASTIC_MAX_RESTARTS",
		   config->restart == RESTART_ON_FAILURE ? config->restart_max : 0);
	add_text(block, "TORCHELASTIC_RUN_ID", config->name, NULL);
	add_text(block, "TORCHELASTIC_ERROR_FILE", values->error_file, NULL);
}

static void
add_ours(struct block *block, int rank, const struct environ_values *values)
{
	if (values->link_fd >= 0)
		add_number(block, "TFRANK_LINK_FD", values->link_fd);
	add_number(block, "TFRANK_RANK", rank);
	add_number(block, "TFRANK_WORLD_SIZE", values->world_size);
	if (values->epoch > 0)
		add_number(block, "TFRANK_EPOCH", values->epoch);
	add_text(block, "NOTIFY_SOCKET", values->notify_socket, NULL);
	add_text(block, VISIBLE_DEVICES, values->visible_devices, NULL);
}

struct brace_values
environ_braces(int rank, const struct environ_values *values)
{
	return (struct brace_values){
	    .rank = rank,
	    .local_rank = rank,
	    .world_size = values->world_size,
	    .gpu = values->gpu,
	    .epoch = values->epoch,
	    .master_addr = values->master_addr,
	    .master_port = values->master_port,
	    .run_dir = values->run_dir,
	};
}

char **
environ_build(const struct config *config, int rank, const struct environ_values *values)
{
	struct brace_values braces = environ_braces(rank, values);
	struct block block = {0};

	do {
		for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
			/* While measuring all of them count: the look at each is what costs. */
			if (block.words == NULL || is_inherited(config, *variable, values))
				add_shared(&block, *variable);
		}
		for (size_t i = 0; i < config->environment_len; i++)
			add_text(&block, config->environment[i].name, config->environment[i].value,
				 &braces);
		add_torch(&block, config, rank, values);
		add_ours(&block, rank, values);
	} while (block.words == NULL && block_allocate(&block));
	if (block.words != NULL)
		block.words[block.count] = NULL;
	return block.words;
}

char **
argv_build(const struct config *config, int rank, const struct environ_values *values)
{
	char *const *argv = config_worker(config, rank)->argv;
	struct brace_values braces = environ_braces(rank, values);
	struct block block = {0};

	do {
		for (size_t i = 0; argv[i] != NULL; i++) {
			if (strchr(argv[i], '{') != NULL)
				add_text(&block, NULL, argv[i], &braces);
			else
				add_shared(&block, argv[i]);
		}
	} while (block.words == NULL && block_allocate(&block));
	return block.words;
}
