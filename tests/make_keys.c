/* make_keys FILE N - writes N u32 keys as a NumPy array, i * 2654435761 mod 2^32 without its low 12 bits: in no order, a few of each. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    const uint32_t n = (uint32_t)strtoul(argv[2], NULL, 10);
    FILE *file = fopen(argv[1], "wb");
    char header[128];
    if (file == NULL)
        return 1;
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int length = snprintf(header + 10, sizeof header - 10, "{'descr': '<u4', 'fortran_order': False, 'shape': (%u,), }", n);
    header[10 + length] = ' ';
    header[127] = '\n';
    fwrite(header, 1, sizeof header, file);
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t key = i * 2654435761u >> 12;
        fwrite(&key, sizeof key, 1, file);
    }
    return fclose(file) == 0 ? 0 : 1;
}
