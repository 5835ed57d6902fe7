// samples/vectors.c beside the command's reader: what the latter takes, the sample reads as the
// same. The first byte says which of the files has the text; the others are empty.
#include "fuzz.h"

#include "vectors.h"

#define vectors_free sample_vectors_free
#include "../../samples/vectors.h"
#undef vectors_free

#include <stdlib.h>
#include <string.h>

// Larger inputs than so many records are drawn, by the sample alone.
enum { MOST_DRAWN = 64 };

static vectors by_tool;
static bool is_taken;

static void check_bytes(const unsigned char *a, const uint8_t *b, size_t count)
{
    REQUIRE((count == 0 || a != NULL) && (count == 0 || memcmp(a, b, count) == 0));
}

static void check_same(const vector *v, size_t k)
{
    if (by_tool.quantize_count > 0) {
        const quantize_vector *q = &by_tool.quantize[k];
        REQUIRE(v->G == q->G && strncmp(v->name, q->name, 63) == 0);
        REQUIRE(v->lowest_bad ==
                (q->domain.reason == KQ_REASON_NONE ? UINT32_MAX : q->domain.record));
        check_bytes(v->values, q->values, (size_t)q->G * KQ_BLOCK_BYTES);
        check_bytes(v->records, q->records, (size_t)q->G * KQ_Q8_K_BYTES);
    } else if (by_tool.dot_count > 0) {
        const dot_vector *d = &by_tool.dot[k];
        REQUIRE(v->G == d->G && strncmp(v->name, d->name, 63) == 0);
        REQUIRE(v->sequential == d->results[0] && v->pairwise == d->results[1]);
        check_bytes(v->lhs, d->lhs, (size_t)d->G * KQ_Q4_K_BYTES);
        check_bytes(v->records, d->rhs, (size_t)d->G * KQ_Q8_K_BYTES);
    } else {
        const bulk_vector *b = &by_tool.bulk[k];
        REQUIRE(v->G == b->G && v->digest == b->digest);
        REQUIRE(v->sequential == b->results[0] && v->pairwise == b->results[1]);
    }
}

static void read_all(void *user)
{
    (void)user;
    size_t count = 0;
    vector *read = vectors_read("folder", &count);
    REQUIRE((read != NULL) == (count > 0));
    if (is_taken) {
        REQUIRE(count == by_tool.quantize_count + by_tool.dot_count + by_tool.bulk_count);
        for (size_t k = 0; k < count; k++) {
            check_same(&read[k], k);
        }
    }
    sample_vectors_free(read, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const files[] = {"quantize.tsv", "dot.tsv", "bulk.tsv"};
    fuzz_input in = {data, size};
    const char *file = files[fuzz_byte(&in) % 3];
    memset(&by_tool, 0, sizeof by_tool);
    size_t count = 0;
    char *text = fuzz_vectors(in.at, in.left, &count);
    is_taken = vectors_add_text(&by_tool, file, "input", text, count);
    uint64_t drawn = 0;
    for (size_t k = 0; k < by_tool.bulk_count; k++) {
        drawn += by_tool.bulk[k].G;
    }
    // The command also takes returns before newlines, and NULs in what it leaves out.
    bool is_plain = drawn <= MOST_DRAWN;
    for (size_t k = 0; k < count; k++) {
        is_plain &= text[k] != '\r' && text[k] != '\0';
    }
    bool survives = fuzz_survives(read_all, NULL, file, (const uint8_t *)text, count);
    free(text);
    REQUIRE(survives || !is_taken || !is_plain);
    vectors_free(&by_tool);
    return 0;
}
