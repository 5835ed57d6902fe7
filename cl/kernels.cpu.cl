// The kernels for CPUs, in one program, for they have most of it in common.
#include "cpu_quantize.cl"
#include "cpu_terms.cl"
#include "fold.cl"

// quantize: a work item takes sixteen blocks, so that divisions are of vectors too. Bytes are stored as
// they are: no neighbour's bytes are read and written with them.
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void quantize(KQ_BUFFER(const, values_range), KQ_BUFFER(, records_range),
                     KQ_BUFFER(, status_range) KQ_QUANTIZE_PARAMS(KQ_PARAM))
{
    uint first = KQ_GROUP_INDEX * KQ_CPU_LANES;
    if (first >= G) {
        return;
    }
    uint blocks = min(KQ_CPU_LANES, G - first);
    uint key[KQ_CPU_LANES] = { 0u };
    for (uint b = 0u; b < blocks; b++) {
        global const uchar *at = (global const uchar *)KQ_RANGE(values_range) + values_offset +
                                 (first + b) * values_stride;
        key[b] = block_key(at, value_stride);
    }
    uint16 keys = vload16(0, key);
    uint16 inverses = kq_inverse(keys);
    uint16 are_legal = kq_is_legal(keys, inverses);
    inverses = are_legal != 0u ? inverses : (uint16)0u;
    uint inverse[KQ_CPU_LANES];
    uint ds[KQ_CPU_LANES];
    uint is_legal[KQ_CPU_LANES];
    vstore16(inverses, 0, inverse);
    vstore16(are_legal != 0u ? kq_ds(inverses) : (uint16)KQ_F32_NAN, 0, ds);
    vstore16(are_legal, 0, is_legal);

    global uint *status = KQ_RANGE(status_range) + status_offset / 4u;
    for (uint b = 0u; b < blocks; b++) {
        global const uchar *at = (global const uchar *)KQ_RANGE(values_range) + values_offset +
                                 (first + b) * values_stride;
        global uchar *record = (global uchar *)KQ_RANGE(records_range) + records_offset +
                               (first + b) * records_stride;
        quantize_block(at, value_stride, make_scale(key[b], inverse[b]), record);
        *(global any_uint *)record = ds[b];
        if (is_legal[b] == 0u) {
            atomic_min((volatile global uint *)status, first + b);
            atomic_inc((volatile global uint *)(status + 1));
        }
    }
    atomic_add((volatile global uint *)(status + 2), blocks);
}

// quantized_dot_terms and quantized_dot_terms_shared: a work item takes sixteen dots side by side, up to
// sixteen records of each, and up to four columns, which are dots of the outer count. What columns that
// have lhs in common need of it is unpacked once. The records of a single dot are side by side too.
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void quantized_dot_terms(KQ_BUFFER(const, lhs_range), KQ_BUFFER(const, rhs_range),
                                KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    bool is_single = dots == 1u;
    uint side_by_side = is_single ? G : inner;
    uint records = is_single ? 1u : G;
    uint rhs_step = is_single ? rhs_stride : rhs_inner_step;
    uint outer = dots / inner;
    uint column_tiles = (outer + KQ_COLUMNS - 1u) / KQ_COLUMNS;
    uint chunks = (records + KQ_CPU_RECORDS - 1u) / KQ_CPU_RECORDS;
    uint first = KQ_GROUP_INDEX / column_tiles / chunks * KQ_CPU_LANES;
    uint chunk = KQ_GROUP_INDEX / column_tiles % chunks * KQ_CPU_RECORDS;
    uint first_column = KQ_GROUP_INDEX % column_tiles * KQ_COLUMNS;
    uint end_column = min(first_column + KQ_COLUMNS, outer);
    if (first >= side_by_side) {
        return;
    }
    uint at_once = lhs_outer_step == 0u && rhs_step == 0u ? end_column - first_column : 1u;
    uint lhs_at[KQ_CPU_LANES];
    uint rhs_at[KQ_CPU_LANES];
    places(lhs_offset, is_single ? lhs_stride : lhs_inner_step, first, side_by_side, lhs_at);
    places(rhs_offset, rhs_step, first, side_by_side, rhs_at);

    for (uint g = chunk; g < min(chunk + KQ_CPU_RECORDS, records); g++) {
        for (uint j = first_column; j < end_column; j += at_once) {
            global const uchar *lhs = (global const uchar *)KQ_RANGE(lhs_range) + g * lhs_stride +
                                      j * lhs_outer_step;
            global const uchar *rhs = (global const uchar *)KQ_RANGE(rhs_range) + g * rhs_stride +
                                      j * rhs_outer_step;
            uint16 v[KQ_COLUMNS];
            if (rhs_step != 0u) {
                v[0] = terms_of_pairs(lhs, lhs_at, rhs, rhs_at);
            } else {
                ready x[KQ_COLUMNS];
                for (uint c = 0u; c < at_once; c++) {
                    make_ready(rhs + rhs_offset + c * rhs_outer_step, &x[c]);
                }
                // A loop of one turn would keep registers from what is in it.
                if (at_once == 1u) {
                    columns_of_terms(lhs, lhs_at, x, 1u, v);
                } else {
                    columns_of_terms(lhs, lhs_at, x, at_once, v);
                }
            }
            for (uint c = 0u; c < at_once; c++) {
                store_terms(v[c], side_by_side - first,
                            KQ_RANGE(scratch_range) + to_at + g * dots + (j + c) * inner + first);
            }
        }
    }
}

// Sixteen values of dots from `first` on; past the last dot, that of the last again.
KQ_FN uint16 values_at(global const uint *values, uint first, uint dots)
{
    if (first + 16u <= dots) {
        return vload16(0, values + first);
    }
    uint value[16];
    for (uint i = 0u; i < 16u; i++) {
        value[i] = values[min(first + i, dots - 1u)];
    }
    return vload16(0, value);
}

// quantized_dot_sequential: a work item adds the terms of 64 dots, four times sixteen, for an addition
// waits for the one before it.
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void quantized_dot_sequential(KQ_BUFFER(, result_range),
                                     KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    global uint *scratch = KQ_RANGE(scratch_range);
    uint first = KQ_GROUP_INDEX * KQ_LANES;
    if (first >= dots) {
        return;
    }
    global const uint *values = scratch + (resumes != 0u ? to_at : from_at);
    uint16 sum[4] = { 0u, 0u, 0u, 0u };
    if (resumes != 0u || count != 0u) {
        for (uint k = 0u; k < 4u; k++) {
            sum[k] = values_at(values, first + 16u * k, dots);
        }
    }
    for (uint g = resumes != 0u ? 0u : 1u; g < count; g++) {
        values = scratch + from_at + g * dots;
        for (uint k = 0u; k < 4u; k++) {
            sum[k] = kq_f32_add(sum[k], values_at(values, first + 16u * k, dots));
        }
    }
    uint value[64];
    for (uint k = 0u; k < 4u; k++) {
        vstore16(sum[k], k, value);
    }
    for (uint i = 0u; i < min(KQ_LANES, dots - first); i++) {
        if (ends != 0u) {
            store_dot(KQ_RANGE(result_range), KQ_RESULT_AT(first + i), value[i]);
        } else {
            scratch[to_at + first + i] = value[i];
        }
    }
}
