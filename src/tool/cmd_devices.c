// kquant devices: what there is to run on.

#include "options.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_json(const kq_device_info *infos, uint32_t count)
{
    text text = {0};
    text_add(&text, "[\n");
    for (uint32_t k = 0; k < count; k++) {
        const char *const members[][2] = {
            {"id", infos[k].id},         {"kind", device_kind(&infos[k])}, {"name", infos[k].name},
            {"driver", infos[k].driver}, {"uuid", infos[k].uuid},
        };
        for (size_t m = 0; m < sizeof members / sizeof members[0]; m++) {
            text_add(&text, "%s\"%s\": ", m == 0 ? "  {" : ", ", members[m][0]);
            text_add_json(&text, members[m][1]);
        }
        text_add(&text, "}%s\n", k + 1 < count ? "," : "");
    }
    text_add(&text, "]\n");
    fwrite(text.bytes, 1, text.count, stdout);
    free(text.bytes);
}

static void print_table(const kq_device_info *infos, uint32_t count)
{
    size_t width = strlen("name");
    for (uint32_t k = 0; k < count; k++) {
        width = strlen(infos[k].name) > width ? strlen(infos[k].name) : width;
    }
    printf("%-10s  %-10s  %-*s  %s\n", "id", "kind", (int)width, "name", "driver");
    for (uint32_t k = 0; k < count; k++) {
        printf("%-10s  %-10s  ", infos[k].id, device_kind(&infos[k]));
        print_text(stdout, infos[k].name);
        printf("%*s", (int)(width - strlen(infos[k].name)) + 2, "");
        print_text(stdout, infos[k].driver);
        printf("\n");
    }
}

int cmd_devices(int argc, char **argv)
{
    bool json = false;
    const option options[] = {
        {.name = "json",
         .kind = OPTION_FLAG,
         .flag = &json,
         .help = "an array of objects with id, kind, name, driver, uuid"},
    };
    const usage usage = {
        .name = "devices",
        .summary = "[--json]",
        .about = "Lists the devices, one a line: id, kind, name and driver as the driver spells "
                 "them. The reference,\nwhich is plain C on this processor, is always there and "
                 "comes first. Every --device option takes\nan id, a uuid, or a part of one "
                 "device's name.\n",
        .examples = "  kquant devices\n"
                    "  kquant devices --json\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    switch (options_parse(&usage, argc, argv, NULL)) {
    case OPTIONS_HELP: return EXIT_DONE;
    case OPTIONS_WRONG: return EXIT_USAGE;
    case OPTIONS_RUN: break;
    }
    uint32_t count = 0;
    kq_device_info *infos = list_devices(&count);
    if (infos == NULL) {
        return EXIT_UNDECIDED;
    }
    if (json) {
        print_json(infos, count);
    } else {
        print_table(infos, count);
    }
    free(infos);
    return EXIT_DONE;
}
