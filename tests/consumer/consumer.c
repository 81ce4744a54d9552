#include <clmoe/clmoe.h>
#include <stdio.h>

int main(void) {
    clmoe_context *context = NULL;
    const clmoe_status status = clmoe_context_create("native", NULL, &context);
    clmoe_context_destroy(context);
    printf("clmoe %s: %s\n", clmoe_version(), clmoe_status_name(status));
    return status != CLMOE_SUCCESS;
}
