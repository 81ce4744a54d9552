/* cache.h - compiled programs on disk, one file each.
 *
 * A file holds the whole key (everything that the program depends on, its source included), the program, and a checksum over both. The
 * file's name is only a hash of the key, so two keys with the same hash cost a rebuild and never give a wrong program. A byte reaches
 * the driver only if length, key and checksum are right: drivers abort the process over a damaged program.
 */
#ifndef CLMOE_OPENCL_CACHE_H
#define CLMOE_OPENCL_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* malloc'ed program, or NULL if there is no sound entry. note (may stay empty): why the cache cannot be used. */
unsigned char *clmoe_cache_load(const char *dir, const char *key, size_t key_bytes, size_t *program_bytes, char *note, size_t note_bytes);

/* Writes beside and renames, so that readers see whole entries only. Makes room by removing the oldest entries. */
void clmoe_cache_store(const char *dir, const char *key, size_t key_bytes, const unsigned char *program, size_t program_bytes, char *note,
                       size_t note_bytes);

/* Removes an entry that the driver would not take. */
void clmoe_cache_remove(const char *dir, const char *key, size_t key_bytes);

#endif
