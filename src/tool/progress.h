// Progress of long work on stderr: a bar on a terminal, else one line at the start.
#ifndef KQ_TOOL_PROGRESS_H
#define KQ_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct progress {
    const char *id;
    size_t done, total;
    bool is_bar;
} progress;

// noun: what is counted, as "case".
void progress_begin(progress *progress, const char *id, const char *noun, size_t done,
                    size_t total);
void progress_step(progress *progress);

// Shows the bar, with what is under way in place of the name that it began with.
void progress_show(progress *progress, const char *id);

// Takes the bar away, so that a line on stdout does not end up behind it.
void progress_hide(const progress *progress);

#endif
