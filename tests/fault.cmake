# Everything that the library calls fails once: OpenCL through a loader layer, memory and files through the linker.
add_library(clmoe_fault_layer SHARED fault_layer.c)
target_include_directories(clmoe_fault_layer PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}" SYSTEM PRIVATE "${CLMOE_OPENCL_INCLUDE}")
target_compile_options(clmoe_fault_layer PRIVATE ${CLMOE_WARNINGS})
target_link_libraries(clmoe_fault_layer PRIVATE Threads::Threads)

set(fault_wraps malloc calloc realloc free mkdir open openat fstat fstatat read write fsync close renameat unlinkat fdopendir fopen)
list(TRANSFORM fault_wraps PREPEND "-Wl,--wrap=")

clmoe_test_program(test_fault SOURCES test_fault.c fault_host.c LIBRARY clmoe_up_to_base)
target_link_libraries(test_fault PRIVATE clmoe_fault_layer ${fault_wraps})

# On PoCL's device without threads, which is the quicker one. More errors, every operator and the other class: behind the label deep.
set(fault_environment "OPENCL_LAYERS=$<TARGET_FILE:clmoe_fault_layer>" "POCL_DEVICES=basic")
foreach(pair IN ITEMS native pocl-serial)
  add_test(NAME test_fault.${pair} COMMAND test_fault)
  set_tests_properties(test_fault.${pair} PROPERTIES
    ENVIRONMENT "${environment_${pair}};${fault_environment}" TIMEOUT 600 LABELS "fault;${pair}")
endforeach()
foreach(pair IN ITEMS pocl-serial pocl-parallel)
  add_test(NAME test_fault.${pair}-deep COMMAND test_fault all)
  set_tests_properties(test_fault.${pair}-deep PROPERTIES
    ENVIRONMENT "${environment_${pair}};${fault_environment}" TIMEOUT 3600 LABELS "fault;deep;${pair}")
endforeach()

# The same under AddressSanitizer and LeakSanitizer.
if(CLMOE_BUILD_MUTANTS)
  add_test(NAME sanitizers.fault COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/test_sanitizers.sh" "${PROJECT_SOURCE_DIR}"
                                         "${CMAKE_CURRENT_BINARY_DIR}/sanitizers" fault)
  set_tests_properties(sanitizers.fault PROPERTIES ENVIRONMENT "${driver_caches}" TIMEOUT 3600 LABELS "fault;deep")
  set_tests_properties(sanitizers sanitizers.fault PROPERTIES RESOURCE_LOCK sanitizers)
endif()

# Faults that these tests must find. clmoe_arm_mutant(<name> <pair> <filter>): the mutant's program is test_fault; only the tests that the
# filter names are run.
function(clmoe_arm_mutant name pair filter)
  target_sources(mutant_${name} PRIVATE fault_host.c)
  target_link_libraries(mutant_${name} PRIVATE clmoe_fault_layer ${fault_wraps})
  set_tests_properties(mutant.${name}.${pair} PROPERTIES
    ENVIRONMENT "${environment_${pair}};${fault_environment};CLMOE_TEST_FILTER=${filter}" LABELS "fault;mutant;${pair}")
endfunction()

if(CLMOE_BUILD_MUTANTS)
  clmoe_add_mutant(leaked_program pocl-serial test_fault src/opencl/program.c
    "cl->clReleaseProgram(*program);\n    *program = NULL;" "*program = NULL;")
  clmoe_arm_mutant(leaked_program pocl-serial test_build_log)
  clmoe_add_mutant(swallowed_launch pocl-serial test_fault src/opencl/backend.c
    "status = fail_call(context, error, \"clEnqueueNDRangeKernel\", name);" "status = CLMOE_SUCCESS;")
  clmoe_arm_mutant(swallowed_launch pocl-serial test_every_call)
  clmoe_add_mutant(unretained_context pocl-serial test_fault src/opencl/backend.c
    "if (error == CL_SUCCESS) {\n            made->opencl_context" "if (error <= CL_SUCCESS) {\n            made->opencl_context")
  clmoe_arm_mutant(unretained_context pocl-serial test_every_call)
  clmoe_add_mutant(leaked_text pocl-serial test_fault src/opencl/program.c
    "free(text->bytes);\n            text->bytes = NULL;" "text->bytes = NULL;")
  clmoe_arm_mutant(leaked_text pocl-serial test_every_allocation)
  clmoe_add_mutant(left_temporary pocl-serial test_fault src/opencl/cache.c "unlinkat(dir_fd, temp, 0);" "(void)temp;")
  clmoe_arm_mutant(left_temporary pocl-serial test_every_file_call)
endif()
