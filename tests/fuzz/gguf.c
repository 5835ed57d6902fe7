// samples/gguf.c. Of what is accepted, every tensor lies in the file, aligned and apart from all
// others; without its last byte the file is refused.
#include "fuzz.h"

#include "../../samples/gguf.h"

#include <stdlib.h>
#include <string.h>

static void check_quote(gguf_string name)
{
    char text[160];
    for (size_t room = 8; room <= sizeof text; room += 19) {
        REQUIRE(gguf_quote(name, text, room) == text && strlen(text) < room);
        for (const char *c = text; *c != '\0'; c++) {
            REQUIRE(*c >= ' ' && *c <= '~');
        }
    }
}

static bool lies_in(gguf_string part, const gguf_file *file)
{
    const unsigned char *bytes = (const unsigned char *)part.bytes;
    return bytes >= file->bytes && bytes <= file->bytes + file->size &&
           part.length <= (uint64_t)(file->bytes + file->size - bytes);
}

static void check_tensor(const gguf_file *file, uint64_t index)
{
    const gguf_tensor *t = &file->tensors[index];
    REQUIRE(lies_in(t->name, file));
    REQUIRE(t->dim_count >= 1 && t->dim_count <= GGUF_MAX_DIMS);
    REQUIRE(t->offset % file->alignment == 0 && t->offset <= file->size);
    REQUIRE(t->bytes <= file->size - t->offset);
    unsigned __int128 rows = 1;
    for (unsigned i = 0; i < GGUF_MAX_DIMS; i++) {
        REQUIRE((i < t->dim_count || t->dims[i] == 1) && t->dims[i] > 0);
        rows *= i > 0 ? t->dims[i] : 1;
    }
    REQUIRE(rows == t->rows);
    if (t->type == GGUF_TYPE_Q4_K) {
        REQUIRE((unsigned __int128)t->bytes == rows * (t->dims[0] / 256) * 144);
    }
    REQUIRE((t->bytes == 0) == (strcmp(gguf_type_name(t->type), "unknown") == 0));
    for (uint64_t k = 0; k < index; k++) {
        const gguf_tensor *other = &file->tensors[k];
        REQUIRE(t->bytes == 0 || other->bytes == 0 || t->offset >= other->offset + other->bytes ||
                other->offset >= t->offset + t->bytes);
        REQUIRE(t->name.length != other->name.length ||
                memcmp(t->name.bytes, other->name.bytes, (size_t)t->name.length) != 0);
    }
    char *name = fuzz_text((const uint8_t *)t->name.bytes, (size_t)t->name.length);
    REQUIRE(strlen(name) != t->name.length || gguf_find(file, name) == t);
    free(name);
    check_quote(t->name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gguf_file file;
    char error[GGUF_ERROR_BYTES] = "";
    uint64_t end = 0;
    if (!gguf_parse(&file, data, size, error)) {
        REQUIRE(error[0] != '\0' && memchr(error, '\0', sizeof error) != NULL);
        REQUIRE(strchr(error, '\n') == NULL);
        return 0;
    }
    REQUIRE(error[0] == '\0' && file.size == size && file.bytes == data);
    REQUIRE(file.version == 2 || file.version == 3);
    REQUIRE(file.alignment != 0 && (file.alignment & (file.alignment - 1)) == 0);
    for (uint64_t i = 0; i < file.tensor_count; i++) {
        check_tensor(&file, i);
        uint64_t last = file.tensors[i].offset + file.tensors[i].bytes;
        end = last > end ? last : end;
    }
    gguf_close(&file);
    if (end > 0) {
        // What lies behind it is read by nobody.
        uint8_t *cut = malloc((size_t)end);
        REQUIRE(cut != NULL);
        memcpy(cut, data, (size_t)end);
        REQUIRE(gguf_parse(&file, cut, (size_t)end, error));
        gguf_close(&file);
        REQUIRE(!gguf_parse(&file, cut, (size_t)end - 1, error));
        free(cut);
    }
    return 0;
}
