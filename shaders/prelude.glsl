// The GLSL prelude of exact.h and records.h: types, qualifiers and word loads, nothing else.
// Installed beside them in include/kquant/device; prelude.h and prelude.cl are its counterparts. Before
// it a shader says #extension GL_GOOGLE_include_directive : require. Besides u32 and what begins with
// KQ_ it takes the names record_place, place_of, rest_of and join.
#define u32 uint
#define KQ_FN
#define KQ_IN const

// Defines u32 name(u32 at): the four bytes at byte `at` of the block member `words`, a uint[]. They
// may start anywhere; no word that holds none of them is read. The member must not be called at, bits
// or word, nor that of KQ_DEFINE_STORE i, word or mask.
#define KQ_DEFINE_LOAD(name, words)                                                                \
    u32 name(const u32 at)                                                                         \
    {                                                                                              \
        u32 bits = (at & 3u) << 3;                                                                 \
        u32 word = words[at >> 2];                                                                 \
        if (bits != 0u) {                                                                          \
            word = (word >> bits) | (words[(at >> 2) + 1u] << (32u - bits));                       \
        }                                                                                          \
        return word;                                                                               \
    }

// Where a record of words starts: its first word, the bits of a neighbour that come before it there,
// and 1 if its end has a word of its own, else 0.
struct record_place {
    u32 word;
    u32 bits;
    u32 more;
};

record_place place_of(const u32 at)
{
    return record_place(at >> 2, (at & 3u) << 3, (at & 3u) != 0u ? 1u : 0u);
}

// Where the rest of word k lies, of a record whose last word is `last`.
u32 rest_of(const record_place place, const u32 k, const u32 last)
{
    return place.word + (k < last ? k + 1u : last + place.more);
}

u32 join(const record_place place, const u32 low, const u32 high)
{
    return (low >> place.bits) | ((high << 1) << (31u - place.bits));
}

// Word k of a record whose last word is `last`, without a branch; a compiler joins the two reads of
// each word of the buffer.
#define KQ_WORD(words, place, k, last)                                                             \
    join(place, words[(place).word + (k)], words[rest_of(place, k, last)])

// Defines void name(u32 i, u32 word, u32 mask): sets the bits of mask in word i. A word that is
// shared with a neighbour is changed by atomics, so that both survive if both write at once.
#define KQ_DEFINE_STORE(name, words)                                                               \
    void name(const u32 i, const u32 word, const u32 mask)                                         \
    {                                                                                              \
        if (mask == 0xFFFFFFFFu) {                                                                 \
            words[i] = word;                                                                       \
        } else if (mask != 0u) {                                                                   \
            atomicAnd(words[i], ~mask);                                                            \
            atomicOr(words[i], word & mask);                                                       \
        }                                                                                          \
    }

// The workgroup's index, and the lane's among those of all workgroups: a dispatch is two-dimensional
// only because its count in x is limited.
#define KQ_GROUP_INDEX (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x)
#define KQ_LANE gl_LocalInvocationIndex

#define KQ_PARAM(name) uint name;
