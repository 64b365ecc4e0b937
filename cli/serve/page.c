/* See page.h. */
#include "page.h"

#include <string.h>

/* The assembler reads the file: no generator, and no array of ten thousand numbers for the compiler. */
#define EMBED(symbol, file)                                                                                            \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".global page_" #symbol "_start\n.hidden page_" #symbol "_start\npage_" #symbol "_start:\n"                \
            ".incbin \"" SIMBA_PAGE_FOLDER "/" file "\"\n"                                                             \
            ".global page_" #symbol "_end\n.hidden page_" #symbol "_end\npage_" #symbol "_end:\n.byte 0\n"             \
            ".popsection\n");                                                                                          \
    extern const unsigned char page_##symbol##_start[], page_##symbol##_end[]

EMBED(index, "index.html");
EMBED(style, "style.css");
EMBED(model, "model.js");
EMBED(timeline, "timeline.js");
EMBED(app, "app.js");

static const page_file files[] = {
    {"/", "text/html; charset=utf-8", page_index_start, page_index_end},
    {"/style.css", "text/css; charset=utf-8", page_style_start, page_style_end},
    {"/model.js", "text/javascript; charset=utf-8", page_model_start, page_model_end},
    {"/timeline.js", "text/javascript; charset=utf-8", page_timeline_start, page_timeline_end},
    {"/app.js", "text/javascript; charset=utf-8", page_app_start, page_app_end},
};

const page_file *page_find(const char *path)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    }
    return NULL;
}
