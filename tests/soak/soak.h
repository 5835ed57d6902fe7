// Mixed work for hours: jobs that quantize blocks and take dots of them, each in one of several
// ways, by many threads at once. What a job is follows from its number alone, and so do its
// outputs.
#ifndef KQ_SOAK_H
#define KQ_SOAK_H

#include <kquant/kquant.h>

#include <stdbool.h>

// --- Jobs

// The way a job goes. A device of level 3 is for one thread at a time; what is brought to level 2
// is in use by all of them at once.
typedef enum soak_way {
    SOAK_OWN_DEVICE,     // level 3: a device of its own, created and destroyed
    SOAK_BUFFERS,        // on a device that threads take in turn, as are the next three
    SOAK_RECORDED,       // operations recorded, and run several times
    SOAK_HOST,           // from and to host memory
    SOAK_SELF_TESTED,    // the self-test, then as SOAK_BUFFERS
    SOAK_BROUGHT,        // level 2
    SOAK_OWN_PACK,       // a pack of its own, created and destroyed
    SOAK_BROUGHT_TESTED  // the self-test beside it
} soak_way;

enum {
    SOAK_MAX_BLOCKS = 512,        // G * columns
    SOAK_MAX_ROW_RECORDS = 1024,  // G * rows
    SOAK_MAX_DOTS = 24 * 6,
    SOAK_MAX_OFFSET = 7,
};

typedef struct soak_job {
    uint64_t number;
    uint64_t seed;  // of inputs, and of what does not change outputs
    soak_way way;
    uint32_t G, rows, columns;  // each row of lhs with each column of rhs
    kq_order order;
    uint32_t values_offset, records_offset, lhs_offset, result_offset;
    bool has_bad;  // one block has no record
} soak_job;

soak_job soak_draw(uint64_t seed, uint64_t number);

// The sizes of a job's four buffers, each to the word after its view and a word that no one writes.
size_t soak_values_bytes(const soak_job *job);
size_t soak_records_bytes(const soak_job *job);
size_t soak_lhs_bytes(const soak_job *job);
size_t soak_result_bytes(const soak_job *job);

// The views of a job's blocks and records, and of its rows and dots.
kq_view soak_values_view(const soak_job *job);
kq_view soak_records_view(const soak_job *job);
kq_view soak_lhs_view(const soak_job *job);
kq_view soak_rhs_view(const soak_job *job);
kq_repeat soak_repeat(const soak_job *job);

// The whole buffers before and after a job: outputs begin as poison.
typedef struct soak_data {
    unsigned char *values, *lhs;
    unsigned char *records, *result;
    kq_domain domain;
} soak_data;

void soak_fill_inputs(const soak_job *job, soak_data *data);
void soak_poison_outputs(const soak_job *job, soak_data *data);
uint64_t soak_digest(const soak_job *job, const soak_data *data);

// What a status read back says goes into domain. False: not all blocks were done.
bool soak_take_status(const soak_job *job, const kq_status *status, soak_data *data);

// Prints a line on stderr, and returns false.
bool soak_complain(const char *format, ...);
kq_errors soak_errors(void);

// OpenCL's programs are compiled once only: compilers keep some memory each time they run.
const kq_cache *soak_cache(void);
void soak_cache_free(void);

// --- Level 3: false where anything failed, having said what

bool soak_run_buffers(kq_device *device, const soak_job *job, soak_data *data, bool is_recorded);
bool soak_run_host(kq_device *device, const soak_job *job, soak_data *data);

// --- An API, as an engine of the test's own uses it

typedef struct soak_api {
    // For level 3, whose messages and objects are counted too; called once, before all else.
    kq_lookup (*lookup)(bool is_validated);
    void *(*open)(void);  // an engine on the first device; NULL: it has said why
    void (*close)(void *engine);
    void *(*lane_open)(void *engine);  // what one thread has of it
    void (*lane_close)(void *lane);
    bool (*run)(void *lane, const soak_job *job, soak_data *data);
    unsigned (*messages)(void);  // of validation layer or driver
    long (*live)(void);          // objects of kquant's that are not destroyed
} soak_api;

#ifdef KQ_HAS_VULKAN
extern const soak_api soak_vulkan;
#endif
#ifdef KQ_HAS_OPENCL
extern const soak_api soak_opencl;
#endif

#endif
