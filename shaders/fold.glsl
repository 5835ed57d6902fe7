// What both folds share: scratch read and written through blocks of their own, so that validation
// sees a missing barrier, and the result of a dot at any byte.
layout(push_constant) uniform Params { KQ_DOT_PARAMS(KQ_PARAM) } p;

layout(std430, set = 0, binding = 2) buffer Result { uint result[]; };
layout(std430, set = 0, binding = 3) readonly buffer From { uint from[]; };
layout(std430, set = 0, binding = 3) writeonly buffer To { uint to[]; };

KQ_DEFINE_STORE(store_word, result)

// The byte of a dot's result.
u32 result_at(const u32 dot)
{
    u32 outer = dot / p.inner;
    return p.result_offset + (dot - outer * p.inner) * p.result_inner_step +
           outer * p.result_outer_step;
}

// The loop is over the one or two words that hold it.
void store_result(const u32 at, const u32 bits)
{
    u32 shift = (at & 3u) << 3;
    u32 word = bits << shift;
    u32 mask = 0xFFFFFFFFu << shift;
    for (u32 i = at >> 2; i <= (at + 3u) >> 2; i++) {
        store_word(i, word, mask);
        word = (bits >> 1) >> (31u - shift);
        mask = ~mask;
    }
}
