// src/tool/vectors.c. What is accepted can be printed and read again, to the same vectors. The
// first byte says which of the files it is.
#include "fuzz.h"

#include "text.h"
#include "vectors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const files[] = {"quantize.tsv", "dot.tsv", "bulk.tsv"};

static void add_hex(text *out, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        text_add(out, "%02x", bytes[i]);
    }
    text_add(out, count == 0 ? "-\t" : "\t");
}

static void add_quantize(text *out, const quantize_vector *v)
{
    text_add(out, "%s\t%" PRIu32 "\t", v->name, v->G);
    add_hex(out, v->values, (size_t)v->G * KQ_BLOCK_BYTES);
    REQUIRE(v->domain.reason == KQ_REASON_NONE || v->domain.record < v->G);
    if (v->domain.reason == KQ_REASON_NONE) {
        text_add(out, "ok\t");
    } else if (v->domain.reason == KQ_REASON_NONFINITE_INPUT) {
        REQUIRE(v->domain.element < KQ_BLOCK);
        text_add(out, "domain-error:%" PRIu32 ":nonfinite-input@%" PRIu32 "\t", v->domain.record,
                 v->domain.element);
    } else {
        text_add(out, "domain-error:%" PRIu32 ":inverse-overflow\t", v->domain.record);
    }
    add_hex(out, v->records, (size_t)v->G * KQ_Q8_K_BYTES);
}

static void print(text *out, const vectors *v)
{
    for (size_t i = 0; i < v->quantize_count; i++) {
        add_quantize(out, &v->quantize[i]);
        out->bytes[out->count - 1] = '\n';  // in place of the last tab
    }
    for (size_t i = 0; i < v->dot_count; i++) {
        text_add(out, "%s\t%" PRIu32 "\t", v->dot[i].name, v->dot[i].G);
        add_hex(out, v->dot[i].lhs, (size_t)v->dot[i].G * KQ_Q4_K_BYTES);
        add_hex(out, v->dot[i].rhs, (size_t)v->dot[i].G * KQ_Q8_K_BYTES);
        text_add(out, "%08" PRIx32 "\t%08" PRIx32 "\n", v->dot[i].results[0], v->dot[i].results[1]);
    }
    for (size_t i = 0; i < v->bulk_count; i++) {
        const bulk_vector *b = &v->bulk[i];
        REQUIRE(b->G <= 1u << 22);
        text_add(out, "%016" PRIx64 "\t%" PRIu32 "\t%016" PRIx64 "\t%08" PRIx32 "\t%08" PRIx32 "\n",
                 b->seed, b->G, b->digest, b->results[0], b->results[1]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vectors read = {0}, again = {0};
    text out = {0}, same = {0};
    fuzz_input in = {data, size};
    const char *file = files[fuzz_byte(&in) % 3];
    size_t count = 0;
    char *shown = fuzz_vectors(in.at, in.left, &count);
    fuzz_complaints = 0;
    bool is_good = vectors_add_text(&read, file, "input", shown, count);
    REQUIRE(fuzz_complaints == (is_good ? 0 : 1));
    if (is_good) {
        print(&out, &read);
        REQUIRE(vectors_add_text(&again, file, "printed", out.bytes, out.count));
        print(&same, &again);
        REQUIRE(out.count == same.count &&
                (out.count == 0 || memcmp(out.bytes, same.bytes, out.count) == 0));
        REQUIRE(read.quantize_count == again.quantize_count);
        for (size_t i = 0; i < read.quantize_count; i++) {
            REQUIRE(memcmp(&read.quantize[i].domain, &again.quantize[i].domain,
                           sizeof(kq_domain)) == 0);
        }
    }
    free(shown);
    free(out.bytes);
    free(same.bytes);
    vectors_free(&read);
    vectors_free(&again);
    return 0;
}
