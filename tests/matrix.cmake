# Label matrix: the self-test, whose hash is the same everywhere, on drivers that allow less or compile otherwise than usual; behind the label
# deep more of them, and the operators' own tests.
#
# clmoe_add_cell(<name> <pair> <labels> <environment>...)
function(clmoe_add_cell name pair labels)
  add_test(NAME matrix.${name} COMMAND test_selftest)
  set_tests_properties(matrix.${name} PROPERTIES ENVIRONMENT "${environment_${pair}};${ARGN}" TIMEOUT 900 LABELS "${labels}")
endfunction()
set(layer "OPENCL_LAYERS=$<TARGET_FILE:clmoe_fault_layer>")

# Groups of one work-item, of few, and of an odd number.
clmoe_add_cell(group-1 pocl-parallel matrix "POCL_MAX_WORK_GROUP_SIZE=1")
foreach(size IN ITEMS 2 16 64 96 256)
  clmoe_add_cell(group-${size} pocl-parallel "matrix;deep" "POCL_MAX_WORK_GROUP_SIZE=${size}")
endforeach()
# Less local memory, and kernels that the driver lets run in small groups only.
clmoe_add_cell(small-local pocl-parallel matrix ${layer} "CLMOE_LAYER_LOCAL_BYTES=8192" "CLMOE_LAYER_GROUP_SIZE=64")
clmoe_add_cell(kernel-limit pocl-parallel "matrix;deep" ${layer} "CLMOE_LAYER_KERNEL_GROUP_SIZE=48")
clmoe_add_cell(rusticl-small-local rusticl-parallel "matrix;deep" ${layer} "CLMOE_LAYER_LOCAL_BYTES=4096")
# Two devices in one context, less memory, other ways to make loops of work-items.
clmoe_add_cell(two-devices pocl-serial matrix "POCL_DEVICES=pthread basic")
clmoe_add_cell(memory-limit pocl-serial matrix "POCL_MEMORY_LIMIT=1")
clmoe_add_cell(cbs pocl-parallel "matrix;deep" "POCL_WORK_GROUP_METHOD=cbs" "POCL_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/pocl-cache-cbs")
clmoe_add_cell(unspecialized pocl-parallel "matrix;deep" "POCL_WORK_GROUP_SPECIALIZATION=0"
  "POCL_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/pocl-cache-unspecialized")
file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/pocl-cache-cbs" "${CMAKE_CURRENT_BINARY_DIR}/pocl-cache-unspecialized")

foreach(program IN ITEMS test_align test_histogram test_scan test_scatter test_sort)
  foreach(size IN ITEMS 1 16 96)
    add_test(NAME matrix.${program}.group-${size} COMMAND ${program})
    set_tests_properties(matrix.${program}.group-${size} PROPERTIES
      ENVIRONMENT "${environment_pocl-parallel};POCL_MAX_WORK_GROUP_SIZE=${size};CLMOE_TEST_CASES=2" TIMEOUT 900 LABELS "matrix;deep")
  endforeach()
endforeach()
