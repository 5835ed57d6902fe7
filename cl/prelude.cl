// The OpenCL C prelude of exact.h and records.h: types, qualifiers and word loads, nothing else.
// Installed beside them in include/kquant/device; prelude.h and prelude.glsl are its counterparts.
// Besides u32 and what begins with KQ_ it takes the names record_place, place_of, join, word_of, load
// and store.
typedef uint u32;
#define KQ_FN static inline
#define KQ_IN

// The four bytes at byte `at` of words. They may start anywhere; no word that holds none of them is
// read.
static inline u32 load(global const u32 *words, u32 at)
{
    u32 bits = (at & 3u) << 3;
    u32 word = words[at >> 2];
    if (bits != 0u) {
        word = (word >> bits) | (words[(at >> 2) + 1u] << (32u - bits));
    }
    return word;
}

// Where a record of words starts: its first word, the bits of a neighbour that come before it
// there, and 1 if its end has a word of its own, else 0.
typedef struct record_place {
    global const u32 *word;
    u32 bits;
    u32 more;
} record_place;

static inline record_place place_of(global const u32 *words, u32 at)
{
    record_place place = { words + (at >> 2), (at & 3u) << 3, (at & 3u) != 0u ? 1u : 0u };
    return place;
}

static inline u32 join(record_place place, u32 low, u32 high)
{
    return (low >> place.bits) | ((high << 1) << (31u - place.bits));
}

// Word k of a record whose last word is `last`, without a branch; a compiler joins the two reads of
// each word of the buffer.
static inline u32 word_of(record_place place, u32 k, u32 last)
{
    u32 low = place.word[k];
    u32 high = place.word[k < last ? k + 1u : last + place.more];
    return join(place, low, high);
}

// Sets the bits of mask in word i. A word that is shared with a neighbour is changed by atomics, so
// that both survive if both write at once.
static inline void store(global u32 *words, u32 i, u32 word, u32 mask)
{
    if (mask == 0xFFFFFFFFu) {
        words[i] = word;
    } else if (mask != 0u) {
        atomic_and((volatile global u32 *)(words + i), ~mask);
        atomic_or((volatile global u32 *)(words + i), word & mask);
    }
}

// A buffer as three kernel arguments: OpenCL can't bind a range, so the range's first word is
// handed over as low + (high << 30).
#define KQ_BUFFER(qualifier, name)                                                                 \
    global qualifier u32 *name##_buffer, u32 name##_low, u32 name##_high
#define KQ_RANGE(name) (name##_buffer + name##_low + ((size_t)name##_high << 30))

// The workgroup's index, and the lane's in it: a dispatch is two-dimensional as in Vulkan.
#define KQ_GROUP_INDEX ((u32)get_group_id(1) * (u32)get_num_groups(0) + (u32)get_group_id(0))
#define KQ_LANE ((u32)get_local_id(0))

#define KQ_PARAM(name) , u32 name
