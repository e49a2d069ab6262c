#include "worker/synth_private.h"

#include "worker/checkpoint.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BF16_BYTES 2

static const struct {
	const char *word, *architecture;
	double rope_theta;
	uint64_t positions;
	bool head_norms; /* q_norm and k_norm */
} layouts[SYNTH_LAYOUT_COUNT] = {
    [SYNTH_QWEN3] = {"qwen3", "Qwen3ForCausalLM", 1e6, 40960, true},
    [SYNTH_LLAMA] = {"llama", "LlamaForCausalLM", 5e5, 131072, false},
};

enum synth_layout
synth_layout_of(const char *word)
{
	enum synth_layout layout;

	for (layout = 0; layout < SYNTH_LAYOUT_COUNT; layout++)
		if (strcmp(layouts[layout].word, word) == 0)
			break;
	return layout;
}

int
synth_choose_heads(struct synth_model *model, struct load_error *error)
{
	if (model->head_dim == 0) {
		model->head_dim = model->hidden >= 1024 ? 128 : 64;
		while (model->hidden % model->head_dim != 0)
			model->head_dim /= 2;
	}
	if (model->heads == 0)
		model->heads = model->hidden / model->head_dim;
	if (model->heads == 0)
		return load_error_set(error, 0,
				      "hidden size %" PRIu64 " has no room for a head of %" PRIu64,
				      model->hidden, model->head_dim);
	if (model->kv_heads == 0) {
		model->kv_heads = 8;
		while (model->kv_heads > 1 &&
		       (model->kv_heads >= model->heads || model->heads % model->kv_heads != 0))
			model->kv_heads /= 2;
	}
	if (model->heads % model->kv_heads != 0)
		return load_error_set(
		    error, 0, "%" PRIu64 " heads do not divide among %" PRIu64 " key-value heads",
		    model->heads, model->kv_heads);
	return 0;
}

/* columns 0: one dimension. -1: out of memory. */
__attribute__((format(printf, 4, 5))) static int
add(struct synth_plan *plan, uint64_t rows, uint64_t columns, const char *fmt, ...)
{
	struct synth_tensor *grown, *tensor;
	va_list ap;

	if (plan->tensor_count == plan->tensor_capacity) {
		plan->tensor_capacity = plan->tensor_capacity * 2 + 64;
		grown = reallocarray(plan->tensors, plan->tensor_capacity, sizeof(*grown));
		if (grown == NULL)
			return -1;
		plan->tensors = grown;
	}
	tensor = &plan->tensors[plan->tensor_count++];
	*tensor = (struct synth_tensor){.shape = {rows, columns}, .ndim = columns > 0 ? 2 : 1};
	va_start(ap, fmt);
	vsnprintf(tensor->name, sizeof(tensor->name), fmt, ap);
	va_end(ap);
	tensor->bytes = rows * (columns > 0 ? columns : 1) * BF16_BYTES;
	plan->bytes += tensor->bytes;
	return 0;
}

static int
add_layer(struct synth_plan *plan, const struct synth_model *m, uint64_t layer)
{
	uint64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
	int r = 0;

#define ADD(rows, columns, name)                                                                   \
	(r |= add(plan, rows, columns, "model.layers.%" PRIu64 "." name ".weight", layer))
	ADD(m->hidden, 0, "input_layernorm");
	ADD(q, m->hidden, "self_attn.q_proj");
	ADD(kv, m->hidden, "self_attn.k_proj");
	ADD(kv, m->hidden, "self_attn.v_proj");
	ADD(m->hidden, q, "self_attn.o_proj");
	if (layouts[m->layout].head_norms) {
		ADD(m->head_dim, 0, "self_attn.q_norm");
		ADD(m->head_dim, 0, "self_attn.k_norm");
	}
	ADD(m->hidden, 0, "post_attention_layernorm");
	ADD(m->intermediate, m->hidden, "mlp.gate_proj");
	ADD(m->intermediate, m->hidden, "mlp.up_proj");
	ADD(m->hidden, m->intermediate, "mlp.down_proj");
#undef ADD
	return r;
}

static int
list_tensors(struct synth_plan *plan, const struct synth_model *m)
{
	int r;

	r = add(plan, m->vocab, m->hidden, "model.embed_tokens.weight");
	for (uint64_t i = 0; r == 0 && i < m->layers; i++)
		r = add_layer(plan, m, i);
	if (r == 0)
		r = add(plan, m->hidden, 0, "model.norm.weight");
	if (r == 0)
		r = add(plan, m->vocab, m->hidden, "lm_head.weight");
	return r;
}

/*
 * By number: each shard takes its equal share of what is left, and leaves a tensor for each shard
 * to come. By size: a shard is closed by the tensor that it has no room for.
 */
static bool
shard_is_full(const struct synth_plan *plan, const struct synth_model *m, size_t tensor,
	      uint64_t in_shard, uint64_t left)
{
	uint64_t shards_left = m->shards - plan->shard_count + 1;

	if (in_shard == 0)
		return false;
	if (m->shards == 0)
		return in_shard + plan->tensors[tensor].bytes > m->shard_bytes;
	if (shards_left == 1)
		return false;
	return plan->tensor_count - tensor < shards_left ||
	       in_shard >= (in_shard + left) / shards_left;
}

static int
share_out(struct synth_plan *plan, const struct synth_model *m)
{
	uint64_t in_shard = 0, left = plan->bytes;

	plan->shards = calloc(plan->tensor_count, sizeof(*plan->shards));
	if (plan->shards == NULL)
		return -1;
	plan->shard_count = 1;
	for (size_t i = 0; i < plan->tensor_count; i++) {
		struct synth_tensor *tensor = &plan->tensors[i];

		if (shard_is_full(plan, m, i, in_shard, left)) {
			plan->shard_count++;
			in_shard = 0;
		}
		tensor->shard = plan->shard_count - 1;
		tensor->offset = in_shard;
		in_shard += tensor->bytes;
		left -= tensor->bytes;
		plan->shards[tensor->shard].bytes = in_shard;
	}
	return 0;
}

static void
name_shards(struct synth_plan *plan)
{
	if (plan->shard_count == 1) {
		snprintf(plan->shards[0].name, SYNTH_FILE_BYTES, "%s", CHECKPOINT_FILE);
		return;
	}
	for (size_t i = 0; i < plan->shard_count; i++)
		snprintf(plan->shards[i].name, SYNTH_FILE_BYTES, "model-%05zu-of-%05zu.safetensors",
			 i + 1, plan->shard_count);
}

static json_t *
header_entry(const struct synth_tensor *t)
{
	json_t *shape = json_array();
	uint64_t end = t->offset + t->bytes;

	for (int i = 0; i < t->ndim; i++)
		json_array_append_new(shape, json_integer((json_int_t)t->shape[i]));
	return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "BF16", "shape", shape, "data_offsets",
			 (json_int_t)t->offset, (json_int_t)end);
}

/* Length, JSON, and blanks to a multiple of 8 bytes. */
static int
set_header(struct synth_shard *shard, const json_t *root)
{
	char *text = json_dumps(root, JSON_COMPACT);
	uint64_t length, little;

	if (text == NULL)
		return -1;
	length = (strlen(text) + 7) / 8 * 8;
	little = htole64(length);
	shard->header_bytes = SAFETENSORS_LENGTH_BYTES + length;
	shard->header = malloc(shard->header_bytes);
	if (shard->header != NULL) {
		memset(shard->header, ' ', shard->header_bytes);
		memcpy(shard->header, &little, sizeof(little));
		memcpy(shard->header + SAFETENSORS_LENGTH_BYTES, text, strlen(text));
	}
	free(text);
	return shard->header != NULL ? 0 : -1;
}

static int
make_headers(struct synth_plan *plan)
{
	size_t i = 0;
	int r = 0;

	for (size_t shard = 0; r == 0 && shard < plan->shard_count; shard++) {
		json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");

		for (; i < plan->tensor_count && plan->tensors[i].shard == shard; i++)
			r |= json_object_set_new(root, plan->tensors[i].name,
						 header_entry(&plan->tensors[i]));
		if (r == 0)
			r = set_header(&plan->shards[shard], root);
		json_decref(root);
	}
	return r;
}

static int
make_index(struct synth_plan *plan)
{
	json_t *map, *root;
	int r = 0;

	if (plan->shard_count == 1)
		return 0;
	map = json_object();
	for (size_t i = 0; i < plan->tensor_count; i++)
		r |= json_object_set_new(map, plan->tensors[i].name,
					 json_string(plan->shards[plan->tensors[i].shard].name));
	root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)plan->bytes,
			 "weight_map", map);
	if (r == 0 && root != NULL)
		plan->index = json_dumps(root, JSON_INDENT(2));
	json_decref(root);
	return plan->index != NULL ? 0 : -1;
}

static int
make_config(struct synth_plan *plan, const struct synth_model *m)
{
	json_t *root;

	root = json_pack("{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, "
			 "s:b, s:b, s:s}",
			 "architectures", layouts[m->layout].architecture, "model_type",
			 layouts[m->layout].word, "hidden_act", "silu", "hidden_size",
			 (json_int_t)m->hidden, "intermediate_size", (json_int_t)m->intermediate,
			 "num_hidden_layers", (json_int_t)m->layers, "num_attention_heads",
			 (json_int_t)m->heads, "num_key_value_heads", (json_int_t)m->kv_heads,
			 "head_dim", (json_int_t)m->head_dim, "vocab_size", (json_int_t)m->vocab,
			 "max_position_embeddings", (json_int_t)layouts[m->layout].positions,
			 "rope_theta", layouts[m->layout].rope_theta, "rms_norm_eps", 1e-6,
			 "torch_dtype", "bfloat16", "tie_word_embeddings", 0, "attention_bias", 0,
			 "synthetic_weights", "tfworker synth");
	if (root != NULL)
		plan->config = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	json_decref(root);
	return plan->config != NULL ? 0 : -1;
}

int
synth_plan_make(struct synth_plan *plan, const struct synth_model *model, struct load_error *error)
{
	int r;

	*plan = (struct synth_plan){0};
	r = list_tensors(plan, model);
	if (r == 0 && model->shards > plan->tensor_count) {
		load_error_set(error, 0, "%" PRIu64 " shards for %zu tensors: at most one for each",
			       model->shards, plan->tensor_count);
		synth_plan_free(plan);
		return -1;
	}
	if (r == 0)
		r = share_out(plan, model);
	if (r == 0) {
		name_shards(plan);
		r = make_headers(plan) | make_index(plan) | make_config(plan, model);
	}
	if (r != 0) {
		synth_plan_free(plan);
		load_error_set(error, ENOMEM, "the plan of the checkpoint");
	}
	return r;
}

void
synth_plan_free(struct synth_plan *plan)
{
	for (size_t i = 0; i < plan->shard_count; i++)
		free(plan->shards[i].header);
	free(plan->tensors);
	free(plan->shards);
	free(plan->config);
	free(plan->index);
	*plan = (struct synth_plan){0};
}
