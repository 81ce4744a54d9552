/* router.h - what route and route-align share: the options of the router, its arrays from files, and its results. A job starts all zero,
 * with the command's name. */
#ifndef CLMOE_CLI_ROUTER_H
#define CLMOE_CLI_ROUTER_H

#include "output.h"
#include "routing.h"

enum { ROUTER_NUM_OPTIONS = 11 };

typedef struct router_job {
    const char *command;
    const char *model_name, *groups, *renormalize, *bias_path, *expert_scale_path;
    uint32_t top_k, score, weight_source, dtype;
    float softcap, scale;
    bool has_top_k, has_score, has_weight_source, has_dtype, has_softcap, has_scale;

    const clmoe_model *model; /* NULL = none */
    clmoe_router router;
    clmoe_logit_type logit_type;
    uint32_t num_tokens;
    npy_array logits, bias, expert_scale;

    npy_array ids, weights; /* [T][K] int32 and float32 */
} router_job;

void router_options(router_job *job, option_spec specs[ROUTER_NUM_OPTIONS]);

/* --model list: the table of models is what the command is to print. */
bool router_lists_models(const router_job *job);
outcome router_list_models(const router_job *job, bool as_json);

/* Reads logits, bias and scales, and makes the router of model and options. */
outcome router_read(router_job *job, const char *path, const number_list *at);

/* The buffers of a call; ids and weights on the host; the end of the buffers, also after a failure. *args starts all zero. */
outcome router_prepare(const router_job *job, session *work, clmoe_route_args *args);
outcome router_collect(router_job *job, session *work, const clmoe_route_args *args);
void router_release(session *work, clmoe_route_args *args);

/* Ids and weights as files; a name may be NULL. */
outcome router_write(const router_job *job, output_set *outputs, const char *directory, const char *ids_name, const char *weights_name);

/* ", ids 1234abcd, weights 1234abcd, hash 1234abcd": zlib's CRC-32 of what is in the two files, and of both one after the other. */
void router_print_sums(const router_job *job, char *text, size_t text_bytes);
void router_json(const router_job *job, report_json *json); /* the router and these, inside of an object */

/* Says what the model has and the command line has not. */
void router_tell_missing(const router_job *job);

void router_free(router_job *job);

/* zlib's CRC-32 of little-endian words; crc is that of what stands before, 0 = nothing. */
uint32_t router_crc32(uint32_t crc, const void *words, size_t num_words);
void router_json_crc32(report_json *json, const char *key, uint32_t crc);

#endif
