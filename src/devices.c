/* The list of devices, and the context on the one that a selector string names. */
#include "devices.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

clmoe_status clmoe_devices_list(clmoe_device_info *infos, size_t capacity, size_t *num_infos) {
    if (num_infos == NULL || (infos == NULL && capacity != 0))
        return CLMOE_INVALID_ARGUMENT;
    size_t count = 0;
    int32_t next_index = 0;
    clmoe_opencl_list(infos, capacity, &count, &next_index);
    if (count < capacity) {
        clmoe_native_describe(0, &infos[count]);
        infos[count].index = next_index;
    }
    *num_infos = count + 1;
    return CLMOE_SUCCESS;
}

static bool contains_text(const char *text, const char *part) {
    for (; *text != '\0'; ++text) {
        size_t i = 0;
        while (part[i] != '\0' && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            ++i;
        if (part[i] == '\0')
            return true;
    }
    return false;
}

/* "12" or "3:1": digits alone. Returns how many numbers there are, 0 for any other text. */
static int parse_numbers(const char *selector, long numbers[2]) {
    char *end;
    if (!isdigit((unsigned char)selector[0]))
        return 0;
    numbers[0] = strtol(selector, &end, 10);
    if (*end == '\0')
        return 1;
    if (*end != ':' || !isdigit((unsigned char)end[1]))
        return 0;
    numbers[1] = strtol(end + 1, &end, 10);
    return *end == '\0' ? 2 : 0;
}

static bool is_selected(const clmoe_device_info *info, const char *selector) {
    long numbers[2];
    switch (parse_numbers(selector, numbers)) {
    case 1: return info->index == numbers[0];
    case 2: return info->platform_index == numbers[0] && info->device_index == numbers[1];
    }
    if (strcmp(selector, "auto") == 0)
        return (info->type & CL_DEVICE_TYPE_GPU) != 0 || info->backend == CLMOE_BACKEND_NATIVE;
    return contains_text(info->platform_name, selector) || contains_text(info->name, selector);
}

static clmoe_status fail_selection(const clmoe_context_options *options, const char *selector, const clmoe_device_info *infos,
                                   size_t num_infos) {
    if (options->error_text == NULL || options->error_text_bytes == 0)
        return CLMOE_NO_DEVICE;
    size_t used = 0;
    for (size_t i = 0; i <= num_infos && used < options->error_text_bytes; ++i) {
        char *at = options->error_text + used;
        const size_t left = options->error_text_bytes - used;
        int length = 0;
        if (i == 0)
            length = snprintf(at, left, "no usable device '%s'; there are", selector);
        else if (infos[i - 1].index >= 0)
            length = snprintf(at, left, "%s %d: %s (%s)", infos[i - 1].index == 0 ? "" : ",", (int)infos[i - 1].index, infos[i - 1].name,
                              infos[i - 1].platform_name);
        used += length > 0 ? (size_t)length : 0;
    }
    return CLMOE_NO_DEVICE;
}

clmoe_status clmoe_context_create(const char *selector, const clmoe_context_options *options, clmoe_context **context) {
    const clmoe_context_options none = {0};
    options = options != NULL ? options : &none;
    if (context == NULL)
        return CLMOE_INVALID_ARGUMENT;
    if (selector == NULL || selector[0] == '\0')
        selector = "auto";
    if (strcmp(selector, "native") == 0) /* without waking up a single driver */
        return clmoe_context_create_native(options, context);

    size_t num_infos = 0, capacity = 0, found = 0;
    clmoe_device_info *infos = NULL;
    clmoe_devices_list(NULL, 0, &num_infos);
    while (num_infos > capacity) { /* once, unless the drivers show more than a moment ago */
        free(infos);
        capacity = num_infos;
        infos = calloc(capacity, sizeof *infos);
        if (infos == NULL)
            return clmoe_context_fail_creation(NULL, options, CLMOE_OUT_OF_MEMORY);
        clmoe_devices_list(infos, capacity, &num_infos);
    }
    while (found < num_infos && !(infos[found].index >= 0 && is_selected(&infos[found], selector)))
        ++found;
    clmoe_status status;
    if (found == num_infos)
        status = fail_selection(options, selector, infos, num_infos);
    else if (infos[found].backend == CLMOE_BACKEND_NATIVE)
        status = clmoe_context_create_native(options, context);
    else
        status = clmoe_opencl_create_owned(&infos[found], options, context);
    if (status == CLMOE_SUCCESS)
        (*context)->info.index = infos[found].index;
    free(infos);
    return status;
}
