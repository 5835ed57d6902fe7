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

// quantized_dot_terms_shared: the same where the dots of the inner count share rhs.
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void quantized_dot_terms_shared(KQ_BUFFER(const, lhs_range), KQ_BUFFER(const, rhs_range),
                                       KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    uint outer = dots / inner;
    uint chunks = (G + KQ_CPU_RECORDS - 1u) / KQ_CPU_RECORDS;
    uint first = KQ_GROUP_INDEX / outer / chunks * KQ_CPU_LANES;
    uint chunk = KQ_GROUP_INDEX / outer % chunks * KQ_CPU_RECORDS;
    uint j = KQ_GROUP_INDEX % outer;
    if (first >= inner) {
        return;
    }
    uint lhs_at[KQ_CPU_LANES];
    places(lhs_offset + j * lhs_outer_step, lhs_inner_step, first, inner, lhs_at);
    for (uint g = chunk; g < min(chunk + KQ_CPU_RECORDS, G); g++) {
        global const uchar *lhs = (global const uchar *)KQ_RANGE(lhs_range) + g * lhs_stride;
        ready x;
        uint16 v;
        make_ready((global const uchar *)KQ_RANGE(rhs_range) + rhs_offset + j * rhs_outer_step +
                       g * rhs_stride,
                   &x);
        columns_of_terms(lhs, lhs_at, &x, 1u, &v);
        store_some(v, inner - first,
                    KQ_RANGE(scratch_range) + to_at + g * dots + j * inner + first);
    }
}

// quantized_dot_terms_columns: the same for up to four columns, which are dots of the outer count
// that have lhs in common: what they need of it is unpacked once.
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void quantized_dot_terms_columns(KQ_BUFFER(const, lhs_range), KQ_BUFFER(const, rhs_range),
                                        KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    uint outer = dots / inner;
    uint tiles = (outer + KQ_COLUMNS - 1u) / KQ_COLUMNS;
    uint chunks = (G + KQ_CPU_RECORDS - 1u) / KQ_CPU_RECORDS;
    uint first = KQ_GROUP_INDEX / tiles / chunks * KQ_CPU_LANES;
    uint chunk = KQ_GROUP_INDEX / tiles % chunks * KQ_CPU_RECORDS;
    uint j = KQ_GROUP_INDEX % tiles * KQ_COLUMNS;
    uint columns = min(KQ_COLUMNS, outer - j);
    if (first >= inner) {
        return;
    }
    uint lhs_at[KQ_CPU_LANES];
    places(lhs_offset, lhs_inner_step, first, inner, lhs_at);
    for (uint g = chunk; g < min(chunk + KQ_CPU_RECORDS, G); g++) {
        global const uchar *lhs = (global const uchar *)KQ_RANGE(lhs_range) + g * lhs_stride;
        ready x[KQ_COLUMNS];
        uint16 v[KQ_COLUMNS];
        for (uint c = 0u; c < columns; c++) {
            make_ready((global const uchar *)KQ_RANGE(rhs_range) + rhs_offset +
                           (j + c) * rhs_outer_step + g * rhs_stride,
                       &x[c]);
        }
        columns_of_terms(lhs, lhs_at, x, columns, v);
        for (uint c = 0u; c < columns; c++) {
            store_some(v[c], inner - first,
                        KQ_RANGE(scratch_range) + to_at + g * dots + (j + c) * inner + first);
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

// The sums of sixteen dots from `first` on, or of those that there are: their results, or values in
// scratch from `at` on. From the parameters of the kernel around it.
#define KQ_STORE_SUMS(sums, first, at)                                                             \
    if (ends != 0u) {                                                                              \
        uint sum_of[16];                                                                           \
        vstore16(sums, 0, sum_of);                                                                 \
        for (uint i = 0u; i < min(KQ_CPU_LANES, dots - (first)); i++) {                            \
            store_dot(KQ_RANGE(result_range), KQ_RESULT_AT((first) + i), sum_of[i]);               \
        }                                                                                          \
    } else {                                                                                       \
        store_some(sums, dots - (first), KQ_RANGE(scratch_range) + (at) + (first));                \
    }

// quantized_dot_sequential: a work item adds the terms of 64 dots, four times sixteen, for an
// addition waits for the one before it.
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void quantized_dot_sequential(KQ_BUFFER(, result_range),
                                     KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    global const uint *scratch = KQ_RANGE(scratch_range);
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
    for (uint k = 0u; k < 4u && first + 16u * k < dots; k++) {
        KQ_STORE_SUMS(sum[k], first + 16u * k, to_at);
    }
}

// quantized_dot_pairwise: a work item adds up a chunk of 512 terms, or fewer, of sixteen dots.
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void quantized_dot_pairwise(KQ_BUFFER(, result_range),
                                   KQ_BUFFER(, scratch_range) KQ_DOT_PARAMS(KQ_PARAM))
{
    global const uint *scratch = KQ_RANGE(scratch_range);
    uint tiles = (dots + KQ_CPU_LANES - 1u) / KQ_CPU_LANES;
    uint chunk = KQ_GROUP_INDEX / tiles;
    uint first = KQ_GROUP_INDEX % tiles * KQ_CPU_LANES;
    uint begin = chunk * KQ_PAIRWISE_CHUNK;
    if (begin >= count) {
        return;
    }
    uint16 sum[KQ_PAIRWISE_CHUNK];
    uint values = min(count - begin, KQ_PAIRWISE_CHUNK);
    for (uint i = 0u; i < values; i++) {
        sum[i] = values_at(scratch + from_at + (begin + i) * dots, first, dots);
    }
    for (; values > 1u; values = (values + 1u) / 2u) {
        for (uint i = 0u; 2u * i + 1u < values; i++) {
            sum[i] = kq_f32_add(sum[2u * i], sum[2u * i + 1u]);
        }
        if (values % 2u != 0u) {
            sum[values / 2u] = sum[values - 1u];
        }
    }
    KQ_STORE_SUMS(sum[0], first, to_at + chunk * dots);
}
