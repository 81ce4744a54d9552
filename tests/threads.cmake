# Many threads on one context, and the same under ThreadSanitizer.
if(CMAKE_C_FLAGS MATCHES "-fsanitize=thread")
  set(tsan_pool tsan_pool.c)
endif()
clmoe_test_program(test_threads SOURCES test_threads.c ${tsan_pool} INCLUDES "${CLMOE_PTHREADPOOL_INCLUDE}")
clmoe_add_pair_tests(test_threads native pocl-serial pocl-parallel rusticl-serial)
foreach(pair IN ITEMS native pocl-serial pocl-parallel rusticl-serial)
  set_tests_properties(test_threads.${pair} PROPERTIES LABELS "threads;${pair}" PROCESSORS 2)
endforeach()
if(tsan_pool)
  target_link_libraries(test_threads PRIVATE ${CMAKE_DL_LIBS})
  # A race that ThreadSanitizer must find: threads begin a launch while others are in the one before.
  file(READ "${PROJECT_SOURCE_DIR}/src/native/backend.c" text)
  string(REPLACE "        wait_for_end(call, launch);\n" "" changed "${text}")
  if(changed STREQUAL text)
    message(FATAL_ERROR "src/native/backend.c no longer waits where it did")
  endif()
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/racing_backend.c" "${changed}")
  clmoe_test_program(test_threads_racing SOURCES test_threads.c ${tsan_pool} "${CMAKE_CURRENT_BINARY_DIR}/racing_backend.c"
    LIBRARY clmoe_up_to_base INCLUDES "${CLMOE_PTHREADPOOL_INCLUDE}" "${PROJECT_SOURCE_DIR}/src/native")
  target_link_libraries(test_threads_racing PRIVATE ${CMAKE_DL_LIBS})
endif()

if(CLMOE_BUILD_MUTANTS) # not inside a build that has sanitizers of its own
  add_test(NAME threads.tsan COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/test_tsan.sh" "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_BINARY_DIR}/tsan")
  set_tests_properties(threads.tsan PROPERTIES ENVIRONMENT "${driver_caches}" TIMEOUT 900 LABELS threads PROCESSORS 2
    DEPENDS "test_threads.pocl-serial;test_threads.pocl-parallel") # they fill the cache of PoCL, which compiles slowly

  # Arguments of one call, work-items of another.
  clmoe_add_mutant(unlocked_arguments pocl-serial test_threads src/opencl/backend.c
    "pthread_mutex_lock(&kernels->mutex);\n    for" "for"
    "    pthread_mutex_unlock(&kernels->mutex);\n" "")
endif()
