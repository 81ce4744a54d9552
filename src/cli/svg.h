/* svg.h - the blocks of align as a picture. */
#ifndef CLMOE_CLI_SVG_H
#define CLMOE_CLI_SVG_H

#include "routing.h"

/* One row per expert, its blocks side by side, a filled cell for each pair and a hollow one for each padding row. Small inputs show the
 * pairs' numbers; large ones become bars as long as the counts. Needs counts, offsets, padded_offsets and status of the call.
 * False if the stream or the memory failed; errno tells why. */
bool svg_draw(FILE *stream, const align_call *call, const routing *route);

#endif
