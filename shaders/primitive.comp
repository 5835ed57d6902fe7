// Asks for single steps of the arithmetic: an item is four words, the number of a primitive, its
// operands a and b, and its result, which is written. One lane an item.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "params.h"
#include "exact.h"
#include "records.h"
#include "primitive.h"

layout(local_size_x = KQ_LANES) in;

layout(push_constant) uniform Params { KQ_PRIMITIVE_PARAMS(KQ_PARAM) } p;

layout(std430, set = 0, binding = 0) buffer Items { uint items[]; };

void main()
{
    uint i = KQ_GROUP_INDEX * KQ_LANES + KQ_LANE;
    if (i < p.count) {
        uint at = p.items_offset / 4u + 4u * i;
        items[at + 3u] = kq_primitive(items[at], items[at + 1u], items[at + 2u]);
    }
}
