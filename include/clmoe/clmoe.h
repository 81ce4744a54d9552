/* clmoe.h - the whole library: core.h says how to call it, moe.h what it does for a Mixture-of-Experts layer, primitives.h
 * what lies underneath. */
#ifndef CLMOE_CLMOE_H
#define CLMOE_CLMOE_H

#include "core.h"
#include "moe.h"
#include "primitives.h"

#endif
