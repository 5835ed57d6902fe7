// How fast memory is, for benches: a workgroup copies 16-byte vectors; or it reads as many and writes
// a word a lane, the xor of all words that this read, so that no read can be left out. Four reads are
// under way at once.
#include "prelude.cl"
#include "params.h"

__attribute__((reqd_work_group_size(KQ_LANES, 1, 1)))
kernel void bandwidth(KQ_BUFFER(const, from_range), KQ_BUFFER(, to_range) KQ_BANDWIDTH_PARAMS(KQ_PARAM))
{
    global u32 *words = KQ_RANGE(to_range);
    u32 unit = KQ_GROUP_INDEX;
    if (unit >= count) {
        return;
    }
    uint4 sum = (uint4)(0u);
    u32 at = unit * (KQ_LANES * KQ_BANDWIDTH_VECTORS) + KQ_LANE;
    for (u32 k = 0u; k < KQ_BANDWIDTH_VECTORS; k += 4u) {
        global const uint4 *from = (global const uint4 *)KQ_RANGE(from_range) + at;
        uint4 a = from[0];
        uint4 b = from[KQ_LANES];
        uint4 c = from[2u * KQ_LANES];
        uint4 d = from[3u * KQ_LANES];
        if (copies != 0u) {
            global uint4 *to = (global uint4 *)words + at;
            to[0] = a;
            to[KQ_LANES] = b;
            to[2u * KQ_LANES] = c;
            to[3u * KQ_LANES] = d;
        }
        sum ^= a ^ b ^ c ^ d;
        at += 4u * KQ_LANES;
    }
    if (copies == 0u) {
        words[unit * KQ_LANES + KQ_LANE] = sum.x ^ sum.y ^ sum.z ^ sum.w;
    }
}
