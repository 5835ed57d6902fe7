// What both folds share: scratch read and written through blocks of their own, so that validation
// sees a missing barrier, and the result of a dot at any byte.
layout(push_constant) uniform Params { KQ_DOT_PARAMS(KQ_PARAM) } p;

layout(std430, set = 0, binding = 2) buffer Result { uint result[]; };
layout(std430, set = 0, binding = 3) readonly buffer From { uint from[]; };
layout(std430, set = 0, binding = 3) writeonly buffer To { uint to[]; };

KQ_DEFINE_STORE(store_result, result)

void store_dot(const u32 dot, const u32 bits)
{
    u32 outer = dot / p.inner;
    u32 at = p.result_offset + (dot - outer * p.inner) * p.result_inner_step +
             outer * p.result_outer_step;
    u32 shift = (at & 3u) << 3;
    store_result(at >> 2, bits << shift, 0xFFFFFFFFu << shift);
    if (shift != 0u) {
        store_result((at >> 2) + 1u, bits >> (32u - shift), 0xFFFFFFFFu >> (32u - shift));
    }
}
