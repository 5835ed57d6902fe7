#include "manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A name may be the manifest's, and no byte of it steers a terminal.
static void fail(const char *what, const char *name)
{
    fputs(what, stderr);
    for (; *name != '\0'; name++) {
        fprintf(stderr, *name >= ' ' && *name <= '~' ? "%c" : "\\x%02x", (unsigned char)*name);
    }
    fputs("\n", stderr);
    exit(EXIT_FAILURE);
}

// --- Files and members

static void *read_file(const char *folder, const char *name, size_t *bytes)
{
    char path[4096];
    FILE *file = NULL;
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path)) {
        file = fopen(path, "rb");
    }
    if (file == NULL) {
        fail("can't be opened: ", path);
    }
    long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    rewind(file);
    char *data = end >= 0 ? malloc((size_t)end + 1) : NULL;
    if (data == NULL || fread(data, 1, (size_t)end, file) != (size_t)end) {
        fail("can't be read: ", path);
    }
    fclose(file);
    data[end] = '\0';
    *bytes = (size_t)end;
    return data;
}

const cJSON *manifest_member(const cJSON *object, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    if (member == NULL) {
        fail("the manifest lacks ", name);
    }
    return member;
}

const char *manifest_text(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(manifest_member(object, name));
    if (text == NULL) {
        fail("the manifest has no text in ", name);
    }
    return text;
}

uint32_t manifest_number(const cJSON *object, const char *name)
{
    const double number = cJSON_GetNumberValue(manifest_member(object, name));
    if (!(number >= 0 && number <= UINT32_MAX)) {
        fail("the manifest has no number of 32 bits in ", name);
    }
    return (uint32_t)number;
}

// One that something is divided by.
static uint32_t positive_number(const cJSON *object, const char *name)
{
    const uint32_t number = manifest_number(object, name);
    if (number == 0) {
        fail("the manifest divides by 0 in ", name);
    }
    return number;
}

cJSON *manifest_read(const char *folder)
{
    size_t bytes;
    char *text = read_file(folder, "kernels.json", &bytes);
    cJSON *manifest = cJSON_Parse(text);
    free(text);
    if (manifest == NULL || manifest_number(manifest, "format") != 1) {
        fail("this is no manifest of format 1: kernels.json of ", folder);
    }
    return manifest;
}

void *manifest_read_file(const char *folder, const cJSON *kernel, const char *api, size_t *bytes)
{
    const cJSON *file = manifest_member(manifest_member(kernel, "files"), api);
    return read_file(folder, manifest_text(file, "file"), bytes);
}

// --- Values

void manifest_set(manifest_values *values, const char *name, uint32_t value)
{
    size_t i = 0;
    while (i < values->count && strcmp(values->of[i].name, name) != 0) {
        i++;
    }
    if (i == MANIFEST_MOST_PARAMS) {
        fail("no room for ", name);
    }
    values->of[i].name = name;
    values->of[i].value = value;
    values->count = i < values->count ? values->count : i + 1;
}

uint32_t manifest_get(const manifest_values *values, const char *name)
{
    for (size_t i = 0; i < values->count; i++) {
        if (strcmp(values->of[i].name, name) == 0) {
            return values->of[i].value;
        }
    }
    return 0;
}

// --- What the manifest has in place of formulas

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0 ? 1 : 0);
}

// A value's name, one value over another, or 1 doubled for each number that a value is above.
static uint64_t evaluate(const cJSON *item, const manifest_values *values)
{
    if (cJSON_IsString(item)) {
        return manifest_get(values, item->valuestring);
    }
    const uint32_t value = manifest_get(values, manifest_text(item, "of"));
    if (cJSON_HasObjectItem(item, "over")) {
        const uint32_t divisor = manifest_get(values, manifest_text(item, "over"));
        return divisor != 0 ? value / divisor : 0;
    }
    uint64_t doubled = 1;
    const cJSON *bound;
    cJSON_ArrayForEach(bound, manifest_member(item, "doubled_above"))
    {
        doubled *= value > bound->valuedouble ? 2 : 1;
    }
    return doubled;
}

// The product of factors, each a product divided by `per` and rounded up.
static uint64_t multiply(const cJSON *factors, const manifest_values *values)
{
    uint64_t result = 1;
    const cJSON *factor, *item;
    cJSON_ArrayForEach(factor, factors)
    {
        uint64_t product = 1;
        cJSON_ArrayForEach(item, manifest_member(factor, "of"))
        {
            product *= evaluate(item, values);
        }
        result *= ceil_div(product, positive_number(factor, "per"));
    }
    return result;
}

static bool is_multiple(uint32_t value, const cJSON *range)
{
    return !cJSON_HasObjectItem(range, "multiple_of") ||
           value % positive_number(range, "multiple_of") == 0;
}

// Whether `where` of a kernel or an area holds; it does if there is none.
static bool holds(const cJSON *object, const manifest_values *values)
{
    const cJSON *range;
    cJSON_ArrayForEach(range, cJSON_GetObjectItemCaseSensitive(object, "where"))
    {
        if (range->string == NULL) {
            fail("the manifest has no names in ", "where");
        }
        const uint32_t value = manifest_get(values, range->string);
        if ((cJSON_HasObjectItem(range, "least") && value < manifest_number(range, "least")) ||
            (cJSON_HasObjectItem(range, "most") && value > manifest_number(range, "most")) ||
            !is_multiple(value, range)) {
            return false;
        }
    }
    return true;
}

// --- Scratch

// Where an area starts, in words; NULL: the end of all.
static uint64_t area_at(const cJSON *areas, const char *name, const manifest_values *values)
{
    uint64_t at = 0;
    const cJSON *area;
    cJSON_ArrayForEach(area, areas)
    {
        if (name != NULL && strcmp(manifest_text(area, "area"), name) == 0) {
            break;
        }
        at += holds(area, values) ? multiply(manifest_member(area, "words"), values) : 0;
    }
    return at;
}

uint64_t manifest_scratch_bytes(const cJSON *manifest, const char *operation,
                                const manifest_values *values)
{
    const cJSON *operations = manifest_member(manifest, "operations");
    return 4 * area_at(manifest_member(manifest_member(operations, operation), "scratch"), NULL,
                       values);
}

// --- Passes

static const cJSON *find_kernel(const cJSON *manifest, const char *name)
{
    const cJSON *kernel;
    cJSON_ArrayForEach(kernel, manifest_member(manifest, "kernels"))
    {
        if (strcmp(manifest_text(kernel, "name"), name) == 0) {
            return kernel;
        }
    }
    fail("the manifest lacks the kernel ", name);
    return NULL;
}

bool manifest_has_file(const cJSON *kernel, const char *api)
{
    const cJSON *files = manifest_member(kernel, "files");
    const bool is_source =
        strcmp(api, "opencl_cpu") == 0 && cJSON_HasObjectItem(files, "opencl_source");
    return (is_source || cJSON_HasObjectItem(files, api)) &&
           !cJSON_HasObjectItem(kernel, "features");
}

// The kernel of a pass, or of a whole operation. NULL: none fits.
static const cJSON *choose_kernel(const cJSON *manifest, const char *api, const cJSON *pass,
                                  const manifest_values *values)
{
    const cJSON *candidate;
    cJSON_ArrayForEach(candidate, cJSON_GetObjectItemCaseSensitive(pass, "kernels"))
    {
        const cJSON *kernel = find_kernel(manifest, manifest_text(candidate, "name"));
        if (manifest_has_file(kernel, api) && holds(candidate, values)) {
            return kernel;
        }
    }
    return NULL;
}

static manifest_dispatch make_dispatch(const cJSON *kernel, const manifest_values *values)
{
    manifest_dispatch d = {.kernel = kernel};
    d.workgroups = multiply(manifest_member(kernel, "workgroups"), values);
    const cJSON *param;
    cJSON_ArrayForEach(param, manifest_member(kernel, "params"))
    {
        const uint32_t offset = manifest_number(param, "offset");
        if (offset % 4 != 0 || offset / 4 >= MANIFEST_MOST_PARAMS) {
            fail("an offset that can't be, of ", manifest_text(param, "name"));
        }
        d.params[offset / 4] = manifest_get(values, manifest_text(param, "name"));
        d.params_bytes = offset + 4 > d.params_bytes ? offset + 4 : d.params_bytes;
    }
    return d;
}

static uint32_t start_of(const cJSON *pass, const char *field, const cJSON *areas,
                         const manifest_values *values)
{
    return cJSON_HasObjectItem(pass, field)
               ? (uint32_t)area_at(areas, manifest_text(pass, field), values)
               : 0;
}

// One dispatch, or a fold's: with `takes` it goes on with the values that are left, with
// `leaves_one_of` with those that it made.
static size_t add_pass(const cJSON *manifest, const char *api, const cJSON *areas,
                       const cJSON *pass, manifest_values values, manifest_dispatch *dispatches,
                       size_t most)
{
    const cJSON *kernel = choose_kernel(manifest, api, pass, &values);
    if (kernel == NULL) {
        fail("no kernel fits", "");
    }
    const bool takes = cJSON_HasObjectItem(pass, "takes");
    const bool folds = takes || cJSON_HasObjectItem(pass, "leaves_one_of");
    const uint32_t most_taken = takes ? positive_number(pass, "takes") : 0;
    const uint32_t left_one_of = folds && !takes ? manifest_number(pass, "leaves_one_of") : 0;
    if (folds && !takes && left_one_of < 2) {
        fail("a pass leaves as much as it takes, of ", manifest_text(kernel, "name"));
    }
    uint32_t from_at = start_of(pass, "from_at", areas, &values);
    uint32_t to_at = start_of(pass, "to_at", areas, &values);
    uint32_t left = manifest_get(&values, "G");
    size_t made = 0;
    bool ends = false;
    while (!ends) {
        uint32_t count = left;
        if (takes) {
            count = left < most_taken ? left : most_taken;
            left -= count;
            ends = left == 0;
        } else if (folds) {
            left = (uint32_t)ceil_div(left, left_one_of);
            ends = left <= 1;
        }
        manifest_set(&values, "from_at", from_at);
        manifest_set(&values, "to_at", to_at);
        if (folds) {
            manifest_set(&values, "count", count);
            manifest_set(&values, "resumes", takes && made > 0 ? 1 : 0);
            manifest_set(&values, "ends", ends ? 1 : 0);
        }
        if (made == most) {
            fail("too many dispatches of ", manifest_text(kernel, "name"));
        }
        dispatches[made] = make_dispatch(kernel, &values);
        if (dispatches[made].workgroups == 0) {
            return made;
        }
        made++;
        if (takes) {
            from_at += count * manifest_get(&values, "dots");
        } else {
            const uint32_t was = from_at;
            from_at = to_at;
            to_at = was;
        }
        ends = ends || !folds;
    }
    return made;
}

size_t manifest_dispatches(const cJSON *manifest, const char *api, const char *operation,
                           const manifest_values *values,
                           manifest_dispatch dispatches[MANIFEST_MOST_DISPATCHES])
{
    const cJSON *found = manifest_member(manifest_member(manifest, "operations"), operation);
    const cJSON *areas = manifest_member(found, "scratch");
    const cJSON *whole = cJSON_GetObjectItemCaseSensitive(found, "whole");
    const cJSON *kernel = choose_kernel(manifest, api, whole, values);
    const cJSON *pass;
    size_t count = 0;
    if (kernel != NULL) {
        manifest_values all = *values;
        manifest_set(&all, "resumes", manifest_number(whole, "resumes"));
        dispatches[0] = make_dispatch(kernel, &all);
        return dispatches[0].workgroups > 0 ? 1 : 0;
    }
    cJSON_ArrayForEach(pass, manifest_member(found, "passes"))
    {
        count += add_pass(manifest, api, areas, pass, *values, dispatches + count,
                          MANIFEST_MOST_DISPATCHES - count);
    }
    return count;
}
