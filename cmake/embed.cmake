# Writes OUTPUT, a C file that holds the files of FILES (a list, relative to ROOT) as byte arrays in the table of src/opencl/sources.h.
# Run as a script: cmake -DROOT=... -DFILES=... -DOUTPUT=... -P embed.cmake
set(arrays "")
set(table "")
set(content "")
set(index 0)
foreach(file IN LISTS FILES)
  file(READ "${ROOT}/${file}" hex HEX)
  string(APPEND content "${file} ${hex} ")
  string(REGEX REPLACE "(................................)" "\\1\n    " hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${hex}")
  string(APPEND arrays "static const unsigned char file_${index}[] = {\n    ${bytes}\n};\n")
  string(APPEND table "    {\"${file}\", file_${index}, sizeof file_${index}},\n")
  math(EXPR index "${index} + 1")
endforeach()
string(SHA256 hash "${content}")
string(SUBSTRING "${hash}" 0 16 hash)
file(WRITE "${OUTPUT}" "/* Generated from cl/ by cmake/embed.cmake. */\n#include \"opencl/sources.h\"\n\n${arrays}\n"
                       "const struct clmoe_source clmoe_sources[] = {\n${table}    {NULL, NULL, 0},\n};\n"
                       "const char clmoe_sources_hash[] = \"${hash}\";\n")
