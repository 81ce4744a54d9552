/* make_logits FILE f32|f16|bf16 STEPS DIM... - writes an array of whole multiples of 1/STEPS, 4096 different ones around 0, mixed up from
 * their place. With 256 steps, -8 to 8, they are exact in f32 and f16; bf16, as uint16, has the low bits cut, so many are equal. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Of numbers that have one, without a loss. */
static uint16_t half_of(uint32_t bits) {
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    return (uint16_t)(magnitude == 0 ? sign : sign | ((magnitude >> 13) - (112u << 10)));
}

int main(int argc, char **argv) {
    char header[128], shape[64] = "";
    size_t num_items = 1;
    if (argc < 5)
        return 2;
    const int is_f32 = strcmp(argv[2], "f32") == 0, is_f16 = strcmp(argv[2], "f16") == 0;
    const float steps = (float)atof(argv[3]);
    for (int i = 4; i < argc; ++i) {
        num_items *= strtoul(argv[i], NULL, 10);
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s,", argv[i]);
    }
    FILE *file = fopen(argv[1], "wb");
    if (file == NULL)
        return 1;
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int length = snprintf(header + 10, sizeof header - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                                is_f32   ? "<f4"
                                : is_f16 ? "<f2"
                                         : "<u2",
                                shape);
    header[10 + length] = ' ';
    header[127] = '\n';
    fwrite(header, 1, sizeof header, file);
    for (size_t i = 0; i < num_items; ++i) {
        const float value = ((float)(mix((uint32_t)i) % 4096) - 2048) / steps;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        const uint16_t narrow = is_f16 ? half_of(bits) : (uint16_t)(bits >> 16);
        fwrite(is_f32 ? (const void *)&bits : &narrow, is_f32 ? sizeof bits : sizeof narrow, 1, file);
    }
    return fclose(file) == 0 ? 0 : 1;
}
