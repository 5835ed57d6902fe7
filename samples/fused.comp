// A shader of your own that quantizes and multiplies in one go: a workgroup quantizes one block into
// shared memory, once, and each of its 64 lanes takes a dot of that record with one of 64 Q4_K
// records. The arithmetic is kquant's, so the bits are those of kq_quantize and kq_quantized_dot.
//
// Compile with -I on the folder of the headers, include/kquant/device once installed:
//     glslangValidator -V -I/usr/local/include/kquant/device -o fused.spv fused.comp
#version 450
#extension GL_GOOGLE_include_directive : require

// First the prelude of the language, which gives exact.h its types.
#include "prelude.glsl"
#include "exact.h"

layout(local_size_x = 64) in;

// Floats are handed over as bits: a float in a shader may lose its subnormals.
layout(std430, set = 0, binding = 0) readonly buffer Values { uint values[]; };
layout(std430, set = 0, binding = 1) readonly buffer Weights { uint weights[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Results { uint results[]; };
// The record, which is here for the host to compare; a shader of yours would not write it anywhere.
layout(std430, set = 0, binding = 3) writeonly buffer Seen { uint seen[]; };

shared uint keys[64];
shared uint record[73];  // ds, 64 words of codes, 8 words of sums

// Then where records are: a Q4_K record is named by its first word, and there is one Q8_K record, so
// that nothing need be said of it. With these records.h defines kq_term.
#define KQ_Q4_K uint
#define KQ_Q8_K uint
#define KQ_Q4_K_WORD(first, k) weights[(first) + (k)]
#define KQ_Q8_K_WORD(unused, k) record[k]
#include "records.h"

void main()
{
    uint lane = gl_LocalInvocationIndex;

    // The extreme of the block: each lane looks at its four values, then at all lanes' keys.
    uint value[4];
    uint key = 0u;
    for (uint i = 0u; i < 4u; i++) {
        value[i] = values[4u * lane + i];
        key = max(key, kq_extreme_key(value[i]));
    }
    keys[lane] = key;
    barrier();
    for (uint i = 0u; i < 64u; i++) {
        key = max(key, keys[i]);
    }

    // The codes of four values are a word. A block that has no record gets ds = NaN and codes of 0.
    uint inverse = kq_inverse(key);
    bool is_legal = kq_is_legal(key, inverse) != 0u;
    inverse = is_legal ? inverse : 0u;
    record[1u + lane] = kq_code(value[0], inverse) | (kq_code(value[1], inverse) << 8) |
                        (kq_code(value[2], inverse) << 16) | (kq_code(value[3], inverse) << 24);
    if (lane == 0u) {
        record[0] = is_legal ? kq_ds(inverse) : KQ_F32_NAN;
    }
    barrier();

    // 16 codes have a sum of 16 bits, two of which are a word.
    if (lane < 8u) {
        uint low = 0u;
        uint high = 0u;
        for (uint i = 0u; i < 4u; i++) {
            low += kq_sum_i8x4(record[1u + 8u * lane + i]);
            high += kq_sum_i8x4(record[5u + 8u * lane + i]);
        }
        record[65u + lane] = (low & 0xFFFFu) | (high << 16);
    }
    barrier();

    // A dot of one record is its term. With more, add terms in record order with kq_f32_add, starting
    // from the first one and not from 0.
    results[lane] = kq_term(lane * 36u, 0u);
    for (uint k = lane; k < 73u; k += 64u) {
        seen[k] = record[k];
    }
}
