// The kernels for CPUs, in one program, for they have most of it in common.
#include "cpu_quantize.cl"
#include "cpu_terms.cl"
#include "fold.cl"

// quantize: a work item takes sixteen blocks, so that divisions are of vectors too. Bytes are
// stored as they are: no neighbour's bytes are read and written with them.
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

// quantized_dot_terms: a work item takes sixteen dots and up to sixteen records of each; or of a
// single dot sixteen records.
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void quantized_dot_terms(KQ_BUFFER(const, lhs_range), KQ_BUFFER(const, rhs_range),
                                KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    bool is_single = dots == 1u;
    uint side_by_side = is_single ? G : dots;
    uint records = is_single ? 1u : G;
    uint chunks = (records + KQ_CPU_RECORDS - 1u) / KQ_CPU_RECORDS;
    uint first = KQ_GROUP_INDEX / chunks * KQ_CPU_LANES;
    uint chunk = KQ_GROUP_INDEX % chunks * KQ_CPU_RECORDS;
    if (first >= side_by_side) {
        return;
    }
    uint lhs_at[KQ_CPU_LANES];
    uint rhs_at[KQ_CPU_LANES];
    if (is_single) {
        places(lhs_offset, lhs_stride, first, side_by_side, lhs_at);
        places(rhs_offset, rhs_stride, first, side_by_side, rhs_at);
    } else {
        for (uint i = 0u; i < KQ_CPU_LANES; i++) {
            uint dot = min(first + i, dots - 1u);
            uint column = dot / inner;
            uint row = dot - column * inner;
            lhs_at[i] = lhs_offset + row * lhs_inner_step + column * lhs_outer_step;
            rhs_at[i] = rhs_offset + row * rhs_inner_step + column * rhs_outer_step;
        }
    }
    for (uint g = chunk; g < min(chunk + KQ_CPU_RECORDS, records); g++) {
        global const uchar *lhs = (global const uchar *)KQ_RANGE(lhs_range) + g * lhs_stride;
        global const uchar *rhs = (global const uchar *)KQ_RANGE(rhs_range) + g * rhs_stride;
        uint16 v = terms_of_pairs(lhs, lhs_at, rhs, rhs_at);
        store_some(v, side_by_side - first, KQ_RANGE(scratch_range) + to_at + g * dots + first);
    }
}

// quantized_dot: a work item takes sixteen dots of the inner count and up to four of the outer one,
// all records of them. Where these share rhs and those lhs, what they need of lhs is unpacked once.
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void quantized_dot(KQ_BUFFER(const, lhs_range), KQ_BUFFER(const, rhs_range),
                          KQ_BUFFER(, result_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    uint outer = dots / inner;
    uint tiles = (outer + KQ_COLUMNS - 1u) / KQ_COLUMNS;
    uint first = KQ_GROUP_INDEX / tiles * KQ_CPU_LANES;
    uint j = KQ_GROUP_INDEX % tiles * KQ_COLUMNS;
    uint end = min(j + KQ_COLUMNS, outer);
    if (first >= inner) {
        return;
    }
    bool is_shared = rhs_inner_step == 0u;
    uint columns = is_shared && lhs_outer_step == 0u ? end - j : 1u;
    for (; j < end; j += columns) {
        uint lhs_at[KQ_CPU_LANES];
        uint rhs_at[KQ_CPU_LANES];
        places(lhs_offset + j * lhs_outer_step, lhs_inner_step, first, inner, lhs_at);
        places(rhs_offset + j * rhs_outer_step, rhs_inner_step, first, inner, rhs_at);
        uint16 v[KQ_COLUMNS];
        uint16 sums[KQ_COLUMNS][33];
        for (uint g = 0u; g < G; g++) {
            global const uchar *lhs = (global const uchar *)KQ_RANGE(lhs_range) + g * lhs_stride;
            global const uchar *rhs = (global const uchar *)KQ_RANGE(rhs_range) + g * rhs_stride;
            if (is_shared) {
                ready x[KQ_COLUMNS];
                for (uint c = 0u; c < columns; c++) {
                    make_ready(rhs + rhs_at[0] + c * rhs_outer_step, &x[c]);
                }
                if (columns == 1u) {  // for which a compiler keeps x in registers
                    columns_of_terms(lhs, lhs_at, x, 1u, v);
                } else {
                    columns_of_terms(lhs, lhs_at, x, columns, v);
                }
            } else {
                v[0] = terms_of_pairs(lhs, lhs_at, rhs, rhs_at);
            }
            // In pairwise order a sum of 2^k terms waits where g has bit k. The last term meets all
            // that wait, any other those that it completes.
            uint waiting = resumes != 0u ? min(g, 1u) : g;
            uint k = 0u;
            for (; waiting != 0u && ((waiting & 1u) != 0u || g + 1u == G); waiting >>= 1) {
                for (uint c = 0u; c < columns && (waiting & 1u) != 0u; c++) {
                    v[c] = kq_f32_add(sums[c][k], v[c]);
                }
                k++;
            }
            for (uint c = 0u; c < columns; c++) {
                sums[c][resumes != 0u ? 0u : k] = v[c];
            }
        }
        for (uint c = 0u; c < columns; c++) {
            uint sum[KQ_CPU_LANES];
            vstore16(v[c], 0, sum);
            for (uint i = 0u; i < min(KQ_CPU_LANES, inner - first); i++) {
                store_dot(KQ_RANGE(result_range),
                          result_offset + (first + i) * result_inner_step +
                              (j + c) * result_outer_step,
                          sum[i]);
            }
        }
    }
}
