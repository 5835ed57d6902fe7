#include "progress.h"
#include "platform.h"

#include <stdio.h>
#include <string.h>

static void show(const progress *progress)
{
    enum { WIDTH = 40 };
    char bar[WIDTH + 1];
    size_t filled = progress->total == 0 ? WIDTH : progress->done * WIDTH / progress->total;
    memset(bar, '.', WIDTH);
    memset(bar, '#', filled);
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r%-10.29s [%s] %zu/%zu", progress->id, bar, progress->done, progress->total);
}

void progress_begin(progress *progress, const char *id, const char *noun, size_t done, size_t total)
{
    progress->id = id;
    progress->done = done;
    progress->total = total;
    progress->is_bar = platform_stderr_is_terminal();
    if (progress->is_bar) {
        show(progress);
        return;
    }
    fprintf(stderr, "%s: running %zu %s%s", id, total - done, noun, total - done == 1 ? "" : "s");
    fprintf(stderr, done > 0 ? ", %zu are done\n" : "\n", done);
}

void progress_step(progress *progress)
{
    progress->done++;
    if (progress->is_bar && (progress->done % 16 == 0 || progress->done == progress->total)) {
        show(progress);
    }
}

void progress_show(progress *progress, const char *id)
{
    progress->id = id;
    if (progress->is_bar) {
        show(progress);
    }
}

void progress_hide(const progress *progress)
{
    if (progress->is_bar) {
        fprintf(stderr, "\r%*s\r", 79, "");
    }
}
