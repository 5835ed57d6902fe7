// What the fuzzers share. Each file of this folder is one: a function that is given any bytes,
// calls what reads them, and ends the process where something doesn't hold.
#ifndef KQ_FUZZ_H
#define KQ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Ends the process, as a finding, unless the condition holds.
#define REQUIRE(condition) fuzz_require(condition, #condition, __FILE__, __LINE__)
void fuzz_require(bool holds, const char *what, const char *file, int line);

// A copy with a NUL behind it, in memory of just that size, to be freed.
char *fuzz_text(const uint8_t *data, size_t size);

// The same of a text of vectors, where the first few of ~, ^ and % stand for the digits of a block,
// a Q8_K and a Q4_K record: short inputs are changed in what counts. No NUL is behind it.
char *fuzz_vectors(const uint8_t *data, size_t size, size_t *count);

// An input as a sequence of numbers; 0 where it has ended.
typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input;
uint8_t fuzz_byte(fuzz_input *in);
uint64_t fuzz_number(fuzz_input *in, unsigned bytes);

// For the command's parts, whose complaints are counted and not printed.
extern unsigned fuzz_complaints;

// Calls code that ends the program where an input is wrong: false where it did, and its memory is
// freed. The file of that name holds `data`, all others are empty.
bool fuzz_survives(void (*fn)(void *user), void *user, const char *name, const uint8_t *data,
                   size_t size);

#endif
