/* From the text of a value to the fields of struct config and struct worker_settings. */
#ifndef SUPERVISOR_CONFIG_TYPES_H
#define SUPERVISOR_CONFIG_TYPES_H

#include "supervisor/config_store.h"

#define CONFIG_WHY_BYTES 256

/* One value on its way. A parser returns 0, or -1 with why filled or left "" for the general word.
 */
struct config_parse {
	const struct config_key *key;
	struct config_store *store;
	void *base; /* the struct that key->scope says */
	char why[CONFIG_WHY_BYTES];
};

/* Reads text as the value of parse->key into *parse->base. 0, or -1 with parse->why filled. */
int config_parse_value(struct config_parse *parse, const char *text);

/* Whole unsigned decimal number; false if it is none or over max. */
bool config_number(const char *text, uint64_t max, uint64_t *number);
/* Bytes, with KiB, MiB or GiB. */
bool config_size(const char *text, uint64_t *bytes);
/* Fills parse->why. Returns -1. */
int config_why(struct config_parse *parse, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Stores a copy of text in *field. */
int config_keep_text(struct config_parse *parse, const char *text, char **field);
/* The field at key->offset. */
void *config_field(const struct config_parse *parse);

/* config_lists.c */
int config_parse_gpus(struct config_parse *parse, const char *text);
int config_parse_cpus(struct config_parse *parse, const char *text);
int config_parse_limits(struct config_parse *parse, const char *text);
int config_parse_exit_words(struct config_parse *parse, const char *text);

/* config_probes.c */
int config_parse_ready(struct config_parse *parse, const char *text);
int config_parse_probe(struct config_parse *parse, const char *text);
int config_parse_progress(struct config_parse *parse, const char *text);
int config_parse_drain(struct config_parse *parse, const char *text);
int config_parse_host_port(struct config_parse *parse, const char *text);

#endif
