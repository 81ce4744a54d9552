# Tests of the tests: the library with one fault put in must make a test fail.
#
# clmoe_add_mutant(<name> <pair> <test> <file> <from> <to> [<from> <to> ...]): a copy of src and cl in which <file> has each <from> replaced,
# linked to the test program <test> and run on <pair>. It passes if a cmocka test reports a failure, or the program ends by a signal.
set(mutant_root "${CMAKE_CURRENT_BINARY_DIR}/mutants")
file(GLOB_RECURSE copied CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.[ch]" "${PROJECT_SOURCE_DIR}/cl/*.h" "${PROJECT_SOURCE_DIR}/cl/*.cl")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${copied})

function(clmoe_add_mutant name pair test file)
  set(root "${mutant_root}/${name}")
  file(COPY "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/cl" DESTINATION "${root}")
  file(READ "${PROJECT_SOURCE_DIR}/${file}" text)
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE 4 ${last} 2) # by number: the texts hold semicolons, which would part a list
    math(EXPR next "${i} + 1")
    set(from "${ARGV${i}}")
    set(to "${ARGV${next}}")
    string(REPLACE "${from}" "${to}" changed "${text}")
    if(changed STREQUAL text)
      message(FATAL_ERROR "Mutant ${name}: ${file} no longer holds '${from}'")
    endif()
    set(text "${changed}")
  endforeach()
  file(WRITE "${root}/${file}.new" "${text}")
  file(COPY_FILE "${root}/${file}.new" "${root}/${file}" ONLY_IF_DIFFERENT)

  # Only what the fault reaches is compiled again; the rest comes from the library whose native kernels are of the base level alone, where
  # the linker leaves out the files whose names are defined already.
  add_executable(mutant_${name} ${test}.c)
  if(file MATCHES "^src/")
    target_sources(mutant_${name} PRIVATE "${root}/${file}")
  else()
    clmoe_embed("${root}/sources.c" "${root}/cl")
    target_sources(mutant_${name} PRIVATE "${root}/sources.c")
    target_include_directories(mutant_${name} PRIVATE "${root}/src")
    if(NOT file MATCHES "^cl/parallel/")
      clmoe_add_kernels(mutant_${name} "${root}/src/native/kernels.c" base)
    endif()
  endif()
  target_link_libraries(mutant_${name} PRIVATE clmoe_fixture clmoe_up_to_base)
  add_test(NAME mutant.${name}.${pair} COMMAND bash -c "\"$0\"; code=$?; [ $code -lt 128 ] || echo '[  FAILED  ] test_ ended by a signal'; exit 0"
                                                $<TARGET_FILE:mutant_${name}>)
  set_tests_properties(mutant.${name}.${pair} PROPERTIES
    ENVIRONMENT "${environment_${pair}};CLMOE_TEST_CASES=20" TIMEOUT 600 LABELS "mutant;${pair}" PASS_REGULAR_EXPRESSION "\\[  FAILED  \\] test_")
endfunction()

# The pairs of a tile are ranked from its end: every count is right, every pair is there, the order inside an expert is not.
clmoe_add_mutant(unstable_rank rusticl-parallel test_align cl/parallel/align.cl
  "const u32 pair = base + (u32)get_local_id(0);\n        u32 bucket = p.num_buckets;"
  "const u32 pair = base + (W - 1 - (u32)get_local_id(0));\n        u32 bucket = p.num_buckets;")
# The masks are cleared while other work-items still read them.
clmoe_add_mutant(missing_barrier pocl-parallel test_align cl/parallel/group.cl
  "GROUP_FENCE();\n\n    if (has_item && later == 0)" "if (has_item && later == 0)")
# The last expert gets no segment.
clmoe_add_mutant(lost_last_expert native test_align cl/serial/align.cl
  "for (u32 bucket = 0; bucket < p.num_buckets; ++bucket) {\n        u32 before = 0;"
  "for (u32 bucket = 0; bucket + 1 < p.num_buckets; ++bucket) {\n        u32 before = 0;")
# The driver's cut of long loops is not known.
clmoe_add_mutant(unknown_loop_cut rusticl-serial test_align src/tuning.c "is_llvmpipe ? 65535 : 0" "0")

clmoe_add_mutant(unstable_sort pocl-parallel test_sort cl/parallel/sort.cl
  "const u32 i = base + (u32)get_local_id(0);\n        const bool has_item"
  "const u32 i = base + (W - 1 - (u32)get_local_id(0));\n        const bool has_item")
clmoe_add_mutant(unstable_insertion native test_sort cl/serial/sort_items.cl "& mask) > bits" "& mask) >= bits")
clmoe_add_mutant(half_inserted native test_sort cl/serial/sort_items.cl
  "if (moves > max_moves)\n                return false;" "if (moves > max_moves)\n                return true;")
clmoe_add_mutant(even_passes native test_sort cl/serial/sort.cl "range.end) | 1)" "range.end))")
clmoe_add_mutant(sample_is_all native test_sort cl/serial/sort.cl
  "if (digits.begin == counted.begin && digits.end == counted.end)" "if (digits.num_passes == counted.num_passes)")
clmoe_add_mutant(infinity_is_nan native test_sort cl/sort.h "magnitude > 0x7f800000u" "magnitude >= 0x7f800000u")
clmoe_add_mutant(scan_without_carry pocl-parallel test_scan cl/parallel/scan.cl "before += total;" "")
clmoe_add_mutant(ignored_uncounted native test_histogram cl/serial/histogram.cl "++ignored;" "(void)ignored;")
clmoe_add_mutant(first_wins pocl-parallel test_scatter cl/parallel/scatter.cl "atomic_max(&winners[p.winners_at + row], i + 1)"
  "atomic_cmpxchg(&winners[p.winners_at + row], 0, i + 1)")

# Equal keys: the higher expert first.
clmoe_add_mutant(last_tie_wins native test_route_cases cl/route.h "key_b - (a < b)" "key_b - (a > b)")
# A dropped group counts as 0, not as less than anything.
clmoe_add_mutant(dropped_is_zero native test_route_cases cl/serial/route.cl
  "                keys[e] = ROUTE_KEY_DROPPED;" "                keys[e] = 0;")
# The bias stays in the weights.
clmoe_add_mutant(biased_weights pocl-serial test_route_cases cl/serial/route.cl
  "made[k] = route_bits(route_flush(route_number(bits)));"
  "made[k] = route_bits(route_flush(route_number(bits) + ((p.has & ROUTE_HAS_BIAS) != 0 ? 0.01f : 0.0f)));")
# A chosen weight is written before all know the sum.
clmoe_add_mutant(early_weights pocl-parallel test_route cl/parallel/route.cl
  "max, sum, max_chosen));\n    }\n    GROUP_FENCE();" "max, sum, max_chosen));\n    }")
# The sum over E in another order than everywhere else: right, but not the same bits.
clmoe_add_mutant(other_sum_order all test_route_agree cl/serial/route.cl
  "lanes[lane] += route_number(items[lane]);" "lanes[(lane + (u32)(end - items) / ROUTE_LANES) % ROUTE_LANES] += route_number(items[lane]);")
# The quotient of the device as it is.
clmoe_add_mutant(rough_quotient all test_route_agree cl/route.h "quotient += 2 * rest > mantissa_b;" "quotient += rest > mantissa_b;")

# The self-test finds them too: an order that is not stable, a last bit, a write behind the end, a changed input, a chunk that is left out.
clmoe_add_mutant(unstable_rank_in_selftest rusticl-parallel test_selftest cl/parallel/align.cl
  "const u32 pair = base + (u32)get_local_id(0);\n        u32 bucket = p.num_buckets;"
  "const u32 pair = base + (W - 1 - (u32)get_local_id(0));\n        u32 bucket = p.num_buckets;")
clmoe_add_mutant(rough_quotient_in_selftest pocl-serial test_selftest cl/route.h
  "quotient += 2 * rest > mantissa_b;" "quotient += rest > mantissa_b;")
clmoe_add_mutant(write_behind_end native test_selftest cl/serial/scan.cl
  "output += p.output_at;" "output += p.output_at;\n    output[p.num_items] = 0;")
clmoe_add_mutant(changed_input native test_selftest cl/serial/scan.cl
  "sum += input[i];\n        output" "sum += input[i];\n        ((global ITEM *)input)[i] = 0;\n        output")
clmoe_add_mutant(lost_item_of_chunk rusticl-serial test_selftest cl/serial/sort.cl
  "last = share_begin(p.num_items, p.num_chunks, chunk + 1);\n    const struct"
  "last = share_begin(p.num_items, p.num_chunks, chunk + 1) - (chunk == 5);\n    const struct")
foreach(mutant IN ITEMS unstable_rank_in_selftest.rusticl-parallel rough_quotient_in_selftest.pocl-serial lost_item_of_chunk.rusticl-serial)
  set_property(TEST mutant.${mutant} APPEND PROPERTY LABELS deep) # each compiles all that the self-test runs
endforeach()
