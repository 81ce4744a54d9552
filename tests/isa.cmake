# Label isa: the kernels of the parallel class compiled for the GPUs of three vendors and as SPIR-V; isa.sh says how, quickstart what it needs.
add_executable(print_programs print_programs.c ${CLMOE_HOST_SOURCES} "${PROJECT_BINARY_DIR}/sources.c")
add_dependencies(print_programs clmoe) # which generates sources.c
clmoe_configure_library(print_programs "${PROJECT_SOURCE_DIR}/src/native/kernels.c" base)
target_compile_definitions(print_programs PRIVATE CLMOE_STATIC)

set(CLMOE_INTEL_COMPILER "${PROJECT_BINARY_DIR}/intel" CACHE PATH "Where the packages with Intel's ocloc are unpacked")
foreach(extent IN ITEMS everyday all)
  add_test(NAME isa.${extent} COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/isa.sh" ${extent} $<TARGET_FILE:print_programs>
                                      "${CLMOE_INTEL_COMPILER}" "${CMAKE_CURRENT_BINARY_DIR}/isa-${extent}")
  set_tests_properties(isa.${extent} PROPERTIES TIMEOUT 7200 LABELS isa PROCESSORS 2)
endforeach()
set_tests_properties(isa.all PROPERTIES LABELS "isa;deep")
