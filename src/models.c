/* The routers of published models: families first, then a line for each model. Where a config has one group, it means none. */
#include "clmoe/moe.h"

#define E_K(experts, chosen) .num_experts = (experts), .top_k = (chosen)

#define SOFTMAX .score = CLMOE_SCORE_SOFTMAX
#define SOFTMAX_SUM SOFTMAX, .renormalize = CLMOE_RENORMALIZE_SUM
#define SOFTMAX_OF_CHOSEN .score = CLMOE_SCORE_IDENTITY, .weight_source = CLMOE_WEIGHTS_SOFTMAX_CHOSEN
#define SIGMOID_OF_CHOSEN .score = CLMOE_SCORE_IDENTITY, .weight_source = CLMOE_WEIGHTS_SIGMOID_CHOSEN
#define SIGMOID_BIAS .score = CLMOE_SCORE_SIGMOID, .has_bias = 1
#define SIGMOID_BIAS_SUM SIGMOID_BIAS, .renormalize = CLMOE_RENORMALIZE_SUM
#define SIGMOID_BIAS_SUM_EPSILON SIGMOID_BIAS, .renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON, .epsilon = 1e-20f
#define SQRT_SOFTPLUS_BIAS_SUM .score = CLMOE_SCORE_SQRT_SOFTPLUS, .has_bias = 1, .renormalize = CLMOE_RENORMALIZE_SUM
#define ERNIE SOFTMAX, .has_bias = 1, .renormalize = CLMOE_RENORMALIZE_MAX_EPSILON, .epsilon = 1e-12f

#define BEST_GROUPS(all, kept) .group_filter = CLMOE_GROUPS_MAX, .num_groups = (all), .kept_groups = (kept)
#define TOP2_GROUPS(all, kept) .group_filter = CLMOE_GROUPS_TOP2_SUM, .num_groups = (all), .kept_groups = (kept)
#define TIMES(factor) .scale = (factor)

#define CONFIG(repository) "config.json of " repository
#define ENGINES "configs and tuned files of inference engines"

static const clmoe_model models[] = {
    {"dbrx", {E_K(16, 4), SOFTMAX_SUM}, ENGINES},
    {"deepseek-r1", {E_K(256, 8), SIGMOID_BIAS_SUM_EPSILON, TOP2_GROUPS(8, 4), TIMES(2.5f)}, CONFIG("deepseek-ai/DeepSeek-R1")},
    {"deepseek-v2", {E_K(160, 6), SOFTMAX, BEST_GROUPS(8, 3), TIMES(16)}, ENGINES},
    {"deepseek-v2-lite", {E_K(64, 6), SOFTMAX}, ENGINES},
    {"deepseek-v3", {E_K(256, 8), SIGMOID_BIAS_SUM_EPSILON, TOP2_GROUPS(8, 4), TIMES(2.5f)}, CONFIG("deepseek-ai/DeepSeek-V3")},
    {"deepseek-v3.2", {E_K(256, 8), SIGMOID_BIAS_SUM_EPSILON, TOP2_GROUPS(8, 4), TIMES(2.5f)}, CONFIG("deepseek-ai/DeepSeek-V3.2")},
    /* V4: not its first layers, which choose by a table of token ids. */
    {"deepseek-v4-flash", {E_K(256, 6), SQRT_SOFTPLUS_BIAS_SUM, TIMES(1.5f)}, CONFIG("deepseek-ai/DeepSeek-V4-Flash")},
    {"deepseek-v4-pro", {E_K(384, 6), SQRT_SOFTPLUS_BIAS_SUM, TIMES(2.5f)}, CONFIG("deepseek-ai/DeepSeek-V4-Pro")},
    {"dots1", {E_K(128, 6), SIGMOID_BIAS_SUM_EPSILON, TIMES(2.5f)}, CONFIG("rednote-hilab/dots.llm1.base")},
    {"ernie-4.5", {E_K(64, 8), ERNIE}, ENGINES ": ERNIE-4.5-300B-A47B"},
    {"ernie-4.5-21b", {E_K(64, 6), ERNIE}, ENGINES ": ERNIE-4.5-21B-A3B"},
    {"flexolmo", {E_K(7, 5), SOFTMAX}, ENGINES},
    {"gemma-4-26b-a4b", {E_K(128, 8), SOFTMAX_SUM, .has_expert_scale = 1}, CONFIG("google/gemma-4-26B-A4B")},
    {"glm-4.5", {E_K(160, 8), SIGMOID_BIAS_SUM_EPSILON, TIMES(2.5f)}, ENGINES},
    {"glm-4.5-air", {E_K(128, 8), SIGMOID_BIAS_SUM_EPSILON}, ENGINES},
    {"glm-5", {E_K(256, 8), SIGMOID_BIAS_SUM_EPSILON, TIMES(2.5f)}, CONFIG("zai-org/GLM-5")},
    {"glm-5.1", {E_K(256, 8), SIGMOID_BIAS_SUM_EPSILON, TIMES(2.5f)}, CONFIG("zai-org/GLM-5.1")},
    {"glm-5.2", {E_K(256, 8), SIGMOID_BIAS_SUM_EPSILON, TIMES(2.5f)}, CONFIG("zai-org/GLM-5.2")},
    {"gpt-oss-120b", {E_K(128, 4), SOFTMAX_OF_CHOSEN}, CONFIG("openai/gpt-oss-120b")},
    {"gpt-oss-20b", {E_K(32, 4), SOFTMAX_OF_CHOSEN}, CONFIG("openai/gpt-oss-20b")},
    {"granite-3-1b-a400m", {E_K(32, 8), SOFTMAX_OF_CHOSEN}, CONFIG("ibm-granite/granite-3.0-1b-a400m-base")},
    {"granite-3-3b-a800m", {E_K(40, 8), SOFTMAX_OF_CHOSEN}, CONFIG("ibm-granite/granite-3.0-3b-a800m-instruct")},
    {"grok-1", {E_K(8, 2), SOFTMAX, .softcap = 30}, ENGINES},
    {"hunyuan-a13b", {E_K(64, 8), SOFTMAX_SUM}, ENGINES},
    {"jamba", {E_K(16, 2), SOFTMAX}, CONFIG("ai21labs/Jamba-v0.1")},
    {"jetmoe", {E_K(8, 2), SOFTMAX_OF_CHOSEN}, CONFIG("jetmoe/jetmoe-8b")},
    {"kimi-k2", {E_K(384, 8), SIGMOID_BIAS_SUM_EPSILON, TIMES(2.827f)}, CONFIG("moonshotai/Kimi-K2-Instruct")},
    {"kimi-k2.5", {E_K(384, 8), SIGMOID_BIAS_SUM_EPSILON, TIMES(2.827f)}, CONFIG("moonshotai/Kimi-K2.5")},
    {"kimi-k3", {E_K(896, 16), SIGMOID_BIAS_SUM_EPSILON}, CONFIG("moonshotai/Kimi-K3")},
    {"kimi-linear", {E_K(256, 8), SIGMOID_BIAS_SUM_EPSILON, TIMES(2.446f)}, ENGINES},
    {"lfm2-moe", {E_K(32, 4), SIGMOID_BIAS_SUM_EPSILON}, ENGINES},
    {"ling-1t", {E_K(256, 8), SIGMOID_BIAS_SUM_EPSILON, TOP2_GROUPS(8, 4), TIMES(2.5f)}, ENGINES},
    {"llama-4-maverick", {E_K(128, 1), SIGMOID_OF_CHOSEN}, CONFIG("meta-llama/Llama-4-Maverick-17B-128E-Instruct")},
    {"llama-4-scout", {E_K(16, 1), SIGMOID_OF_CHOSEN}, CONFIG("meta-llama/Llama-4-Scout-17B-16E-Instruct")},
    {"longcat-flash", {E_K(768, 12), SOFTMAX, .has_bias = 1, TIMES(6)}, ENGINES ": 512 experts, then 256 that do nothing"},
    {"mimo-v2-flash", {E_K(256, 8), SIGMOID_BIAS_SUM_EPSILON}, CONFIG("XiaomiMiMo/MiMo-V2-Flash")},
    {"minimax-m2", {E_K(256, 8), SIGMOID_BIAS_SUM}, ENGINES},
    {"minimax-m2.5", {E_K(256, 8), SIGMOID_BIAS_SUM}, CONFIG("MiniMaxAI/MiniMax-M2.5")},
    {"minimax-m2.7", {E_K(256, 8), SIGMOID_BIAS_SUM}, CONFIG("MiniMaxAI/MiniMax-M2.7")},
    {"minimax-m3", {E_K(128, 4), SIGMOID_BIAS_SUM, TIMES(2)}, CONFIG("MiniMaxAI/MiniMax-M3")},
    {"mixtral-8x22b", {E_K(8, 2), SOFTMAX_SUM}, CONFIG("mistralai/Mixtral-8x22B-v0.1")},
    {"mixtral-8x7b", {E_K(8, 2), SOFTMAX_SUM}, CONFIG("mistralai/Mixtral-8x7B-v0.1")},
    {"nemotron-3-nano", {E_K(128, 6), SIGMOID_BIAS_SUM_EPSILON, TIMES(2.5f)}, CONFIG("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")},
    {"nemotron-3-ultra", {E_K(512, 22), SIGMOID_BIAS_SUM_EPSILON, TIMES(5)}, CONFIG("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16")},
    {"olmoe", {E_K(64, 8), SOFTMAX}, ENGINES},
    {"qwen1.5-moe-a2.7b", {E_K(60, 4), SOFTMAX}, ENGINES},
    {"qwen2-57b-a14b", {E_K(64, 8), SOFTMAX}, ENGINES},
    {"qwen3-235b-a22b", {E_K(128, 8), SOFTMAX_SUM}, CONFIG("Qwen/Qwen3-235B-A22B")},
    {"qwen3-30b-a3b", {E_K(128, 8), SOFTMAX_SUM}, CONFIG("Qwen/Qwen3-30B-A3B")},
    {"qwen3-coder-480b-a35b", {E_K(160, 8), SOFTMAX_SUM}, CONFIG("Qwen/Qwen3-Coder-480B-A35B-Instruct")},
    {"qwen3-next-80b-a3b", {E_K(512, 10), SOFTMAX_SUM}, ENGINES},
    {"qwen3-vl-235b-a22b", {E_K(128, 8), SOFTMAX_SUM}, CONFIG("Qwen/Qwen3-VL-235B-A22B-Instruct")},
    {"qwen3-vl-30b-a3b", {E_K(128, 8), SOFTMAX_SUM}, CONFIG("Qwen/Qwen3-VL-30B-A3B-Instruct")},
    {"qwen3.5-122b-a10b", {E_K(256, 8), SOFTMAX_SUM}, CONFIG("Qwen/Qwen3.5-122B-A10B")},
    {"qwen3.5-35b-a3b", {E_K(256, 8), SOFTMAX_SUM}, CONFIG("Qwen/Qwen3.5-35B-A3B")},
    {"qwen3.5-397b-a17b", {E_K(512, 10), SOFTMAX_SUM}, CONFIG("Qwen/Qwen3.5-397B-A17B")},
    {"ring-1t", {E_K(256, 8), SIGMOID_BIAS_SUM_EPSILON, TOP2_GROUPS(8, 4), TIMES(2.5f)}, ENGINES},
};

static char lower(char letter) {
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

const clmoe_model *clmoe_models(size_t *num_models) {
    *num_models = sizeof models / sizeof models[0];
    return models;
}

const clmoe_model *clmoe_model_find(const char *name) {
    for (size_t i = 0; name != NULL && i < sizeof models / sizeof models[0]; ++i) {
        size_t same = 0;
        while (name[same] != '\0' && lower(name[same]) == models[i].name[same])
            ++same;
        if (name[same] == '\0' && models[i].name[same] == '\0')
            return &models[i];
    }
    return NULL;
}
