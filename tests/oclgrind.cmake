# Label oclgrind: every kernel of the parallel class in a simulator that sees races and uses of memory that nobody wrote; oclgrind.sh says how.
clmoe_test_program(test_oclgrind)
add_test(NAME oclgrind COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/oclgrind.sh" $<TARGET_FILE:test_oclgrind> "${CMAKE_CURRENT_BINARY_DIR}/oclgrind")
set_tests_properties(oclgrind PROPERTIES TIMEOUT 900 LABELS oclgrind PROCESSORS 2)
if(NOT CLMOE_BUILD_MUTANTS)
  return()
endif()

# Faults that must be reported, whatever the results are.
set(environment_oclgrind-parallel "CLMOE_TEST_PAIR=oclgrind-parallel" "OCL_ICD_VENDORS=/usr/lib/oclgrind/liboclgrind-rt-icd.so")
# The masks are cleared while other work-items still read them.
clmoe_add_mutant(oclgrind_missing_barrier oclgrind-parallel test_oclgrind cl/parallel/group.cl
  "GROUP_FENCE();\n\n    if (has_item && later == 0)" "if (has_item && later == 0)")
# One item is written behind each chunk.
clmoe_add_mutant(oclgrind_stray_store oclgrind-parallel test_oclgrind cl/parallel/scan.cl
  "if (i < last)\n            output[i]" "if (i <= last)\n            output[i]")
# A key that counts for nothing is read while its owner writes it.
clmoe_add_mutant(oclgrind_unused_read oclgrind-parallel test_oclgrind cl/parallel/route.cl
  "*(e < p.num_experts ? &t.keys[e] : &t.best[lane])" "t.keys[e < p.num_experts ? e : 0]")
set(mutants missing_barrier stray_store unused_read)
# Local memory is taken for zero.
list(APPEND environment_oclgrind-parallel "CLMOE_TEST_OCLGRIND=uninitialized")
clmoe_add_mutant(oclgrind_no_zero oclgrind-parallel test_oclgrind cl/parallel/histogram.cl
  "group_zero(memory, num_counters + 1);" "")
list(APPEND mutants no_zero)
foreach(mutant IN LISTS mutants)
  set_tests_properties(mutant.oclgrind_${mutant}.oclgrind-parallel PROPERTIES LABELS "mutant;oclgrind" PASS_REGULAR_EXPRESSION "Oclgrind reports")
endforeach()
