// Mixed work at levels 2 and 3 by several threads, for minutes or hours: see soak.h. Each job's
// outputs are compared with the reference's at once, and what they all come to is one fingerprint,
// the same for every device and number of threads. After each of some rounds, when no thread has
// anything, memory is looked at; it must not grow.
#ifndef _POSIX_C_SOURCE
# define _POSIX_C_SOURCE 200809L
#endif

#include "soak.h"

#include "../faulty_heap.h"
#include "../support.h"

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROUND_COUNT = 40,
    WARM_UP = 10,  // rounds in which drivers' pools and caches fill
    WINDOW = 10,   // rounds of which the middle counts: some have a pool less, or more
    SHARED_COUNT = 3,
    MAX_THREADS = 64,
    MIN_JUDGED = 2000,  // jobs, for memory to be judged
};

typedef struct options {
    const char *device;
    uint64_t items, seed;
    unsigned threads;
    // Memory is not judged then, for the layer's own grows; and packs and devices of a job's own,
    // which drivers' compilers keep a little of, are made all the time and not in the warm-up only.
    bool is_validated;
    const char *fingerprint;  // what it must be, or NULL
} options;

// A device that threads take in turn.
typedef struct shared_device {
    pthread_mutex_t mutex;
    kq_device *device;
} shared_device;

typedef struct soak {
    options options;
    const soak_api *api;  // NULL: the reference, which has no level 2
    kq_lookup lookup;
    void *engine;
    shared_device shared[SHARED_COUNT];
    uint64_t *digests;  // by number
    atomic_ullong next;
    uint64_t round_end;
    atomic_bool is_wrong;
    pthread_barrier_t begin, end;
    double memory[ROUND_COUNT];  // MiB
    long allocations[ROUND_COUNT];
} soak;

// --- Jobs

static kq_device *open_device(const soak *s, const char *name, uint64_t work)
{
    kq_device *device = NULL;
    const kq_device_params params = {
        .device = name,
        .lookup = s->lookup,
        .work = work,
        .cache = soak_cache(),
        .errors = soak_errors(),
    };
    kq_device_create(&params, &device);
    return device;
}

static bool run_own_device(const soak *s, const soak_job *job, soak_data *data)
{
    static const uint64_t works[] = {0, 64, 1000, 1 << 15};
    kq_device *device = open_device(s, s->options.device, works[job->seed % 4]);
    bool is_good = device != NULL && soak_run_buffers(device, job, data, job->seed / 16 % 2 != 0);
    kq_device_destroy(&device);
    return is_good;
}

static bool run_shared(soak *s, const soak_job *job, soak_data *data)
{
    shared_device *shared = &s->shared[job->number % SHARED_COUNT];
    pthread_mutex_lock(&shared->mutex);
    bool is_good = job->way != SOAK_SELF_TESTED || kq_self_test(shared->device, NULL) == KQ_OK;
    is_good = is_good && (job->way == SOAK_HOST ? soak_run_host(shared->device, job, data)
                                                : soak_run_buffers(shared->device, job, data,
                                                                   job->way == SOAK_RECORDED));
    pthread_mutex_unlock(&shared->mutex);
    return is_good;
}

typedef struct worker {
    soak *soak;
    pthread_t thread;
    kq_device *reference;
    void *lane;
    soak_data data, expected;
    double reference_seconds;  // of the processor
} worker;

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool run_job(worker *w, const soak_job *job)
{
    soak *s = w->soak;
    double before = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    soak_fill_inputs(job, &w->data);
    bool is_good = soak_run_buffers(w->reference, job, &w->expected, false);
    w->reference_seconds += seconds_of(CLOCK_THREAD_CPUTIME_ID) - before;
    if (job->way == SOAK_OWN_DEVICE) {
        is_good = is_good && run_own_device(s, job, &w->data);
    } else if (job->way < SOAK_BROUGHT || s->api == NULL) {
        is_good = is_good && run_shared(s, job, &w->data);
    } else {
        is_good = is_good && s->api->run(w->lane, job, &w->data);
    }
    uint64_t digest = is_good ? soak_digest(job, &w->data) : 0;
    if (is_good && digest != soak_digest(job, &w->expected)) {
        is_good = soak_complain("job %" PRIu64 ", way %d: other bytes than the reference's",
                                job->number, (int)job->way);
    }
    s->digests[job->number] = digest;
    return is_good;
}

static void *run_worker(void *user)
{
    worker *w = user;
    soak *s = w->soak;
    for (int round = 0; round < ROUND_COUNT; round++) {
        pthread_barrier_wait(&s->begin);
        while (!atomic_load(&s->is_wrong)) {
            uint64_t number = atomic_fetch_add(&s->next, 1);
            if (number >= s->round_end) {
                break;
            }
            soak_job job = soak_draw(s->options.seed, number);
            if (round >= WARM_UP && !s->options.is_validated) {
                job.way = job.way == SOAK_OWN_DEVICE ? SOAK_BUFFERS
                          : job.way == SOAK_OWN_PACK ? SOAK_BROUGHT
                                                     : job.way;
            }
            if (!run_job(w, &job)) {
                atomic_store(&s->is_wrong, true);
            }
        }
        pthread_barrier_wait(&s->end);
    }
    return NULL;
}

// --- Memory

// Of this process alone, what is not the contents of a file.
static double memory_now(void)
{
    char line[256];
    double kib = 0;
    malloc_trim(0);
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        double value = 0;
        if (sscanf(line, "Private_Dirty: %lf", &value) == 1 ||
            sscanf(line, "Swap: %lf", &value) == 1) {
            kib += value;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib / 1024;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

static double median_of(const double *memory)
{
    double sorted[WINDOW];
    memcpy(sorted, memory, sizeof sorted);
    qsort(sorted, WINDOW, sizeof *sorted, compare);
    return sorted[WINDOW / 2];
}

// --- The whole

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "soak: out of memory\n");
        exit(EXIT_FAILURE);
    }
    memset(memory, POISON, bytes);
    return memory;
}

static void make_data(soak_data *data, const soak_data *inputs)
{
    enum { SPARE = SOAK_MAX_OFFSET + 8 };
    *data = (soak_data){
        .values =
            inputs != NULL ? inputs->values : allocate(SOAK_MAX_BLOCKS * KQ_BLOCK_BYTES + SPARE),
        .lhs =
            inputs != NULL ? inputs->lhs : allocate(SOAK_MAX_ROW_RECORDS * KQ_Q4_K_BYTES + SPARE),
        .records = allocate(SOAK_MAX_BLOCKS * KQ_Q8_K_BYTES + SPARE),
        .result = allocate(SOAK_MAX_DOTS * sizeof(float) + SPARE),
    };
}

static bool open_all(soak *s, worker *workers)
{
    bool is_good = true;
    if (s->api != NULL) {
        s->lookup = s->api->lookup(s->options.is_validated);
        s->engine = s->api->open();
        is_good = s->engine != NULL;
    }
    for (int i = 0; i < SHARED_COUNT; i++) {
        pthread_mutex_init(&s->shared[i].mutex, NULL);
        s->shared[i].device = is_good ? open_device(s, s->options.device, 0) : NULL;
        is_good = s->shared[i].device != NULL;
    }
    for (unsigned i = 0; i < s->options.threads; i++) {
        worker *w = &workers[i];
        w->soak = s;
        make_data(&w->data, NULL);
        make_data(&w->expected, &w->data);
        w->reference = open_device(s, "reference", 0);
        w->lane = is_good && s->api != NULL ? s->api->lane_open(s->engine) : NULL;
        is_good = is_good && w->reference != NULL && (s->api == NULL || w->lane != NULL);
    }
    return is_good;
}

static void close_all(soak *s, worker *workers)
{
    for (unsigned i = 0; i < s->options.threads; i++) {
        worker *w = &workers[i];
        if (w->lane != NULL) {
            s->api->lane_close(w->lane);
        }
        kq_device_destroy(&w->reference);
        free(w->data.values);
        free(w->data.lhs);
        free(w->data.records);
        free(w->data.result);
        free(w->expected.records);
        free(w->expected.result);
    }
    for (int i = 0; i < SHARED_COUNT; i++) {
        kq_device_destroy(&s->shared[i].device);
        pthread_mutex_destroy(&s->shared[i].mutex);
    }
    soak_cache_free();
    if (s->engine != NULL) {
        s->api->close(s->engine);
    }
}

static void run_rounds(soak *s, worker *workers)
{
    double began = seconds_of(CLOCK_MONOTONIC);
    double told = began;
    unsigned threads = s->options.threads;
    pthread_barrier_init(&s->begin, NULL, threads + 1);
    pthread_barrier_init(&s->end, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0) {
            fprintf(stderr, "soak: no thread\n");
            exit(EXIT_FAILURE);
        }
    }
    for (int round = 0; round < ROUND_COUNT; round++) {
        uint64_t begin = s->round_end;
        s->round_end = s->options.items * (uint64_t)(round + 1) / ROUND_COUNT;
        atomic_store(&s->next, begin);
        pthread_barrier_wait(&s->begin);
        pthread_barrier_wait(&s->end);
        s->memory[round] = memory_now();
        s->allocations[round] = heap.live;  // of this program and kquant, not of drivers
        if (seconds_of(CLOCK_MONOTONIC) - told >= 15 || round + 1 == ROUND_COUNT) {
            told = seconds_of(CLOCK_MONOTONIC);
            fprintf(stderr,
                    "soak: %.0f s, %" PRIu64 " of %" PRIu64 " items, memory %.1f MiB, "
                    "%ld allocations\n",
                    told - began, s->round_end, s->options.items, s->memory[round],
                    s->allocations[round]);
        }
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    pthread_barrier_destroy(&s->begin);
    pthread_barrier_destroy(&s->end);
}

static uint64_t fingerprint_of(const soak *s)
{
    unsigned char *bytes = allocate((size_t)s->options.items * 8);
    for (uint64_t i = 0; i < s->options.items; i++) {
        store_u32(bytes + 8 * i, (uint32_t)s->digests[i]);
        store_u32(bytes + 8 * i + 4, (uint32_t)(s->digests[i] >> 32));
    }
    uint64_t fingerprint = fnv1a64(bytes, (size_t)s->options.items * 8);
    free(bytes);
    return fingerprint;
}

// What is known once all is closed. Prints the last line.
static bool judge(const soak *s, double seconds, double processor, double reference_seconds)
{
    char fingerprint[17];
    bool judges_memory = s->options.items >= MIN_JUDGED && !s->options.is_validated;
    double first = median_of(s->memory + WARM_UP);
    double last = median_of(s->memory + ROUND_COUNT - WINDOW);
    unsigned messages = s->api != NULL ? s->api->messages() : 0;
    long live = s->api != NULL ? s->api->live() : 0;
    bool is_good = !atomic_load(&s->is_wrong);
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, fingerprint_of(s));
    if (live != 0) {
        is_good = soak_complain("%ld objects were not destroyed", live);
    }
    if (messages > 0) {
        is_good = soak_complain("there were messages");
    }
    long more = s->allocations[ROUND_COUNT - 1] - s->allocations[WARM_UP - 1];
    if (more > 0) {
        is_good = soak_complain("%ld more allocations than after the warm-up", more);
    }
    if (judges_memory && last > 1.01 * first) {
        is_good = soak_complain("memory grew by %.2f %%", 100 * (last / first - 1));
    }
    if (s->options.fingerprint != NULL && strcmp(s->options.fingerprint, fingerprint) != 0) {
        is_good = soak_complain("the fingerprint should be %s", s->options.fingerprint);
    }
    fprintf(stderr, "soak: %.0f s of the processor, %.0f %% of them the reference's\n", processor,
            100 * reference_seconds / processor);
    printf("soak: %s, %.0f s, %u threads, %" PRIu64 " items, fingerprint %s, memory %.1f to %.1f "
           "MiB%s, %u messages\n",
           s->options.device, seconds, s->options.threads, s->options.items,
           atomic_load(&s->is_wrong) ? "none" : fingerprint, first, last,
           judges_memory ? "" : " (not judged)", messages);
    return is_good;
}

static bool read_number(const char *text, uint64_t most, uint64_t *number)
{
    char *end = NULL;
    *number = strtoull(text, &end, 0);
    return end != text && *end == '\0' && *number <= most;
}

static bool read_options(int argc, char **argv, options *o)
{
    uint64_t threads = 8;
    bool is_good = argc > 1;
    *o = (options){.items = MIN_JUDGED, .seed = 1};
    for (int i = 1; i < argc && is_good; i++) {
        const char *value = strchr(argv[i], '=');
        size_t length = value != NULL ? (size_t)(value++ - argv[i]) : 0;
        if (length == 8 && strncmp(argv[i], "--device", length) == 0) {
            o->device = value;
        } else if (length == 7 && strncmp(argv[i], "--items", length) == 0) {
            is_good = read_number(value, 1 << 28, &o->items) && o->items > 0;
        } else if (length == 9 && strncmp(argv[i], "--threads", length) == 0) {
            is_good = read_number(value, MAX_THREADS, &threads) && threads > 0;
        } else if (length == 6 && strncmp(argv[i], "--seed", length) == 0) {
            is_good = read_number(value, UINT64_MAX, &o->seed);
        } else if (strcmp(argv[i], "--validate") == 0) {
            o->is_validated = true;
        } else if (length == 13 && strncmp(argv[i], "--fingerprint", length) == 0) {
            o->fingerprint = value;
        } else {
            is_good = false;
        }
    }
    o->threads = (unsigned)threads;
    if (!is_good || o->device == NULL) {
        fprintf(stderr, "usage: soak --device=reference|vulkan:0|opencl:0 [--items=N] [--threads=N]"
                        " [--seed=N] [--fingerprint=HEX] [--validate]\n");
        return false;
    }
    return true;
}

static const soak_api *find_api(const char *device)
{
#ifdef KQ_HAS_VULKAN
    if (strncmp(device, "vulkan:", 7) == 0) {
        return &soak_vulkan;
    }
#endif
#ifdef KQ_HAS_OPENCL
    if (strncmp(device, "opencl:", 7) == 0) {
        return &soak_opencl;
    }
#endif
    (void)device;
    return NULL;
}

int main(int argc, char **argv)
{
    static soak s;
    static worker workers[MAX_THREADS];
    if (!read_options(argc, argv, &s.options)) {
        return EXIT_FAILURE;
    }
    // What is freed is then given back, and not kept by the heap of some thread.
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 1 << 16);
    s.api = find_api(s.options.device);
    s.digests = allocate((size_t)s.options.items * sizeof *s.digests);
    double began = seconds_of(CLOCK_MONOTONIC);
    bool is_open = open_all(&s, workers);
    if (is_open) {
        run_rounds(&s, workers);
    }
    double seconds = seconds_of(CLOCK_MONOTONIC) - began;
    double reference_seconds = 0;
    for (unsigned i = 0; i < s.options.threads; i++) {
        reference_seconds += workers[i].reference_seconds;
    }
    double processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    close_all(&s, workers);
    bool is_good = is_open && judge(&s, seconds, processor, reference_seconds);
    free(s.digests);
    return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
