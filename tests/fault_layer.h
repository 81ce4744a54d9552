/* fault_layer.h - an OpenCL loader layer that makes chosen calls fail, counts calls and references, and pretends that a device is smaller.
 *
 * The loader takes it in through OPENCL_LAYERS=<path>. A program that is linked to it steers it with the functions below; any other program
 * through the environment, read when the loader starts:
 *
 *     CLMOE_LAYER_FAIL=clBuildProgram:1:-11,...   the first clBuildProgram gives -11 (call:number:code, numbers from 1)
 *     CLMOE_LAYER_REPORT=1                        at the end, references that are left and misuses go to stderr
 *     CLMOE_LAYER_LOCAL_BYTES=16384               CL_DEVICE_LOCAL_MEM_SIZE, where the device has more
 *     CLMOE_LAYER_GROUP_SIZE=64                   CL_DEVICE_MAX_WORK_GROUP_SIZE and CL_DEVICE_MAX_WORK_ITEM_SIZES, likewise
 *     CLMOE_LAYER_KERNEL_GROUP_SIZE=32            CL_KERNEL_WORK_GROUP_SIZE, likewise
 *
 * A call that fails does not reach the driver, but for releases and clBuildProgram: those do their work, and then report
 * the failure.
 */
#ifndef CLMOE_TESTS_FAULT_LAYER_H
#define CLMOE_TESTS_FAULT_LAYER_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>

/* Counts start again at 0, and no call is to fail any more. */
void fault_layer_reset(void);
/* Calls are counted, and fail, only while the layer watches. It does from the start. References are always counted. */
void fault_layer_watch(bool is_watching);
/* The call `name` fails when it comes for the number-th time. False: the layer does not know the call, or has no room for more. */
bool fault_layer_fail(const char *name, unsigned number, cl_int code);
/* How many calls were made to fail since the reset. */
unsigned fault_layer_num_failed(void);

/* The calls that the layer knows, and how often each came since the reset. */
unsigned fault_layer_num_calls(void);
const char *fault_layer_name(unsigned call);
unsigned fault_layer_count(unsigned call);

/* References to contexts, queues, ... that are held now; text: how many of which, "" for none. */
unsigned fault_layer_references(char *text, size_t text_bytes);
/* Releases of objects to which nobody holds a reference, since the start: they do not reach the driver. */
unsigned fault_layer_misuses(void);

#endif
