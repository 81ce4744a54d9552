# The cache of compiled programs under attack: broken entries, writers that are killed, places that can't serve.
foreach(pair IN ITEMS native pocl-serial rusticl-serial)
  set_property(TEST test_cache.${pair} APPEND PROPERTY LABELS cache)
endforeach()
foreach(pair IN ITEMS native pocl-serial)
  add_test(NAME test_cache.${pair}-deep COMMAND test_cache deep)
  set_tests_properties(test_cache.${pair}-deep PROPERTIES
    ENVIRONMENT "${environment_${pair}}" TIMEOUT 1800 LABELS "cache;deep;${pair}" PROCESSORS 2)
endforeach()
if(CLMOE_BUILD_CLI)
  add_test(NAME test_cache_cli COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/test_cache_cli.sh" $<TARGET_FILE:clmoe_cli> $<TARGET_FILE_DIR:clmoe>
                                       $<TARGET_FILE:clmoe_fault_layer> "${data}")
  set_tests_properties(test_cache_cli PROPERTIES TIMEOUT 300 LABELS cache)
endif()

# Faults that these tests must find.
function(clmoe_add_cache_mutant name filter from to)
  clmoe_add_mutant(${name} native test_cache src/opencl/cache.c "${from}" "${to}" ${ARGN}) # no text may hold a semicolon
  target_include_directories(mutant_${name} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  set_tests_properties(mutant.${name}.native PROPERTIES
    ENVIRONMENT "${environment_native};CLMOE_TEST_FILTER=${filter}" LABELS "cache;mutant;native")
endfunction()

if(CLMOE_BUILD_MUTANTS)
  clmoe_add_cache_mutant(unchecked_sum test_damage "checksum_of(&header, stored_key, program) == header.checksum" "true")
  clmoe_add_cache_mutant(unchecked_key test_swapped_entries "memcmp(stored_key, key, key_bytes) == 0" "true")
  clmoe_add_cache_mutant(unchecked_mode test_entries_open_to_others
    "status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||\n        !read_all" "!read_all")
  clmoe_add_cache_mutant(written_in_place test_writers_are_killed "O_WRONLY | O_CREAT | O_EXCL" "O_WRONLY | O_CREAT | O_TRUNC"
    "snprintf(temp, sizeof temp," "snprintf(temp, sizeof temp, \"%s\", name), snprintf((char[80]){0}, 80,")
endif()
