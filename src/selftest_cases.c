#include "selftest_cases.h"

#define GPT_OSS                                                                                                                            \
    { .num_experts = 32, .top_k = 4, .score = CLMOE_SCORE_IDENTITY, .weight_source = CLMOE_WEIGHTS_SOFTMAX_CHOSEN }
#define DEEPSEEK                                                                                                                           \
    {                                                                                                                                      \
        .num_experts = 256, .top_k = 8, .score = CLMOE_SCORE_SIGMOID, .has_bias = 1, .group_filter = CLMOE_GROUPS_TOP2_SUM,                \
        .num_groups = 8, .kept_groups = 4, .renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON, .epsilon = 1e-20f, .scale = 2.5f             \
    }
#define SOFTMAX_SUM                                                                                                                        \
    { .num_experts = 128, .top_k = 8, .renormalize = CLMOE_RENORMALIZE_SUM }
#define SOFTPLUS                                                                                                                           \
    {                                                                                                                                      \
        .num_experts = 160, .top_k = 6, .score = CLMOE_SCORE_SQRT_SOFTPLUS, .has_bias = 1, .renormalize = CLMOE_RENORMALIZE_SUM,           \
        .scale = 1.5f                                                                                                                      \
    }
#define BEST_GROUPS                                                                                                                        \
    { .num_experts = 160, .top_k = 6, .group_filter = CLMOE_GROUPS_MAX, .num_groups = 8, .kept_groups = 3, .scale = 16 }
#define CAPPED_ALL                                                                                                                         \
    { .num_experts = 40, .top_k = 40, .softcap = 30, .has_expert_scale = 1 }
#define SIGMOID_OF_ONE                                                                                                                     \
    { .num_experts = 16, .top_k = 1, .score = CLMOE_SCORE_IDENTITY, .weight_source = CLMOE_WEIGHTS_SIGMOID_CHOSEN }

/* Sizes: several tiles of the largest group, several chunks where they are asked for, small enough for a driver that cuts long loops. */
const struct test_case clmoe_selftest_cases[] = {
    {ALIGN, "i32 ids", 700, false, true, {.align = {.top_k = 8, .num_experts = 256, .block_size = 64}}, 0x09ab2a843bb05433u},
    {ALIGN, "i32 ids of one token", 1, false, false, {.align = {.top_k = 8, .num_experts = 128, .block_size = 16}}, 0x3db57e423563efbeu},
    {ALIGN,
     "i64 ids, a part of the experts",
     500,
     true,
     false,
     {.align = {.top_k = 6, .num_experts = 60, .block_size = 7, .id_type = CLMOE_ID_I64}},
     0x169c423ef3e6b302u},
    {ALIGN,
     "u8 ids, a bucket in front",
     900,
     true,
     false,
     {.align = {.top_k = 4, .num_experts = 64, .block_size = 128, .id_type = CLMOE_ID_U8, .foreign = CLMOE_FOREIGN_BUCKET}},
     0xba4726bebc8f9c7au},
    {ALIGN,
     "u32 ids, foreign experts kept",
     300,
     true,
     false,
     {.align = {.top_k = 2,
                .num_experts = 8,
                .block_size = 32,
                .id_type = CLMOE_ID_U32,
                .foreign = CLMOE_FOREIGN_KEEP,
                .has_pad_value = 1,
                .pad_value = -1}},
     0x76cfb0bcb831e42du},
    {ALIGN,
     "i16 ids, thousands of experts",
     40,
     false,
     false,
     {.align = {.top_k = 8, .num_experts = 3000, .block_size = 4, .id_type = CLMOE_ID_I16}},
     0xa776ddfb13821d68u},
    {ROUTE, "f32, softmax, sum", 97, false, true, {.route = {.router = SOFTMAX_SUM}}, 0xd886915d0beabb9fu},
    {ROUTE,
     "bf16, sigmoid, bias, groups",
     61,
     false,
     false,
     {.route = {.logit_type = CLMOE_LOGIT_BF16, .router = DEEPSEEK}},
     0x07472f31ed6d0c72u},
    {ROUTE, "f16, softplus, bias", 67, false, false, {.route = {.logit_type = CLMOE_LOGIT_F16, .router = SOFTPLUS}}, 0x0a6feacd9c803db9u},
    {ROUTE,
     "bf16, softmax of the chosen",
     150,
     false,
     false,
     {.route = {.logit_type = CLMOE_LOGIT_BF16, .router = GPT_OSS}},
     0xf6e6baa4f5f86e91u},
    {ROUTE, "f32, softmax, best groups", 40, false, false, {.route = {.router = BEST_GROUPS}}, 0xb730106482fdf08bu},
    {ROUTE, "f32, softcap, all experts", 50, false, false, {.route = {.router = CAPPED_ALL}}, 0x2dc4e1dbdb81d58du},
    {ROUTE, "f32, sigmoid of one", 90, false, false, {.route = {.router = SIGMOID_OF_ONE}}, 0x9a8ed85ceb52063au},
    {ROUTE_ALIGN, "a batch of decoding", 64, false, false, {.route_align = {.router = GPT_OSS, .block_size = 16}}, 0xa26c55589335d72du},
    {ROUTE_ALIGN,
     "groups of experts, all options",
     200,
     true,
     false,
     {.route_align = {.logit_type = CLMOE_LOGIT_BF16, .router = DEEPSEEK, .block_size = 64}},
     0xd6e63b04296691ecu},
    {HISTOGRAM, "u8", 20000, true, true, {.histogram = {.num_bins = 256, .sample_type = CLMOE_TYPE_U8}}, 0x9d16fe5e67143653u},
    {HISTOGRAM,
     "i32, some out of range",
     9001,
     true,
     false,
     {.histogram = {.num_bins = 1000, .sample_type = CLMOE_TYPE_I32}},
     0x448f6bc2da336580u},
    {HISTOGRAM, "i64", 3000, true, false, {.histogram = {.num_bins = 3, .sample_type = CLMOE_TYPE_I64}}, 0x36dd70787dc724edu},
    {SCAN, "u32, exclusive", 20001, false, true, {.scan = {.type = CLMOE_TYPE_U32}}, 0x70fa8c324fbeb3d8u},
    {SCAN, "u64, inclusive", 9000, false, false, {.scan = {.type = CLMOE_TYPE_U64, .kind = CLMOE_SCAN_INCLUSIVE}}, 0xf4e2821af23015dcu},
    {SORT, "u32 with u32", 3001, false, true, {.sort = {.key_type = CLMOE_TYPE_U32, .value_bytes = 4}}, 0x276a2b1d104ad10fu},
    {SORT,
     "f32 down, argsort",
     2000,
     false,
     false,
     {.sort = {.key_type = CLMOE_TYPE_F32, .value_bytes = 4, .is_argsort = 1, .is_descending = 1}},
     0xa27b3756370773b7u},
    {SORT,
     "u64 with u64, 20 bits",
     2500,
     false,
     false,
     {.sort = {.key_type = CLMOE_TYPE_U64, .value_bytes = 8, .begin_bit = 3, .end_bit = 23}},
     0x76e521a53ce29496u},
    {SORT, "i32", 3000, false, false, {.sort = {.key_type = CLMOE_TYPE_I32}}, 0x07a04d39500e2ef7u},
    {SCATTER,
     "12 bytes, the last wins",
     1500,
     true,
     true,
     {.scatter = {.row_bytes = 12, .index_type = CLMOE_TYPE_I64, .duplicates = CLMOE_DUPLICATES_LAST_WINS}},
     0x170bdfca846777dau},
    {SCATTER, "16 bytes", 2000, true, false, {.scatter = {.row_bytes = 16, .index_type = CLMOE_TYPE_U32}}, 0x4ab5d28a7c66ff2eu},
    {GATHER, "4 bytes", 5000, true, true, {.scatter = {.row_bytes = 4, .index_type = CLMOE_TYPE_I32}}, 0x82b0566b0deb38d0u},
    {GATHER, "70 bytes", 900, true, false, {.scatter = {.row_bytes = 70, .index_type = CLMOE_TYPE_U64}}, 0x77b2eaa4fa19ecb2u},
};

const size_t clmoe_num_selftest_cases = sizeof clmoe_selftest_cases / sizeof *clmoe_selftest_cases;
