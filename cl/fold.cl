// What both folds share: the result of a dot at any byte.
static inline void store_dot(global u32 *result, u32 at, u32 bits)
{
    u32 shift = (at & 3u) << 3;
    store(result, at >> 2, bits << shift, 0xFFFFFFFFu << shift);
    if (shift != 0u) {
        store(result, (at >> 2) + 1u, bits >> (32u - shift), 0xFFFFFFFFu >> (32u - shift));
    }
}

// The byte of dot's result, from the parameters of the kernel around it. No remainder beside the
// quotient: clang would freeze the dot for both, which oclgrind's memory check doesn't know.
#define KQ_RESULT_AT(dot)                                                                          \
    (result_offset + ((dot) - (dot) / inner * inner) * result_inner_step +                         \
     (dot) / inner * result_outer_step)
