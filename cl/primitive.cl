// Asks for single steps of the arithmetic: an item is four words, the number of a primitive, its
// operands a and b, and its result, which is written. One lane an item.
#include "prelude.cl"
#include "params.h"
#include "exact.h"
#include "records.h"
#include "primitive.h"

__attribute__((reqd_work_group_size(KQ_LANES, 1, 1)))
kernel void primitive(KQ_BUFFER(, items_range) KQ_PRIMITIVE_PARAMS(KQ_PARAM))
{
    u32 i = KQ_GROUP_INDEX * KQ_LANES + KQ_LANE;
    if (i < count) {
        global u32 *item = KQ_RANGE(items_range) + items_offset / 4u + 4u * i;
        item[3] = kq_primitive(item[0], item[1], item[2]);
    }
}
