// libFuzzer over the C interface: `run.sh` builds and runs it.
//
// Every input is a program (`program.h`) in a new pool, so that an input is all that is needed to see a
// finding again. If its first byte is odd the pool is closed and opened in the middle.

#include "program.h"
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static char path[200];
    if (!path[0]) {
        const char *folder = getenv("EVERLEAF_FUZZ_FOLDER");
        snprintf(path, sizeof path, "%s/fuzz-%ld.pool", folder ? folder : "/tmp", (long)getpid());
    }
    if (size < 2) return 0;
    unlink(path);
    program *p = (program *)calloc(1, sizeof *p);
    if (!p) exit(2);
    size_t half = data[0] & 1 ? size / 2 : size;
    p->data = data + 1;
    p->size = half - 1;
    for (;;) {
        p->store = open_store(path);
        MUST(el_store_map(p->store, NULL, false, &p->map) == EL_OK);
        check_all(p);
        run_program(p);
        if (half == size) break;
        MUST(el_map_free(p->map) == EL_OK);
        MUST(el_store_close(p->store) == EL_OK && el_store_free(p->store) == EL_OK);
        p->data = data + half;
        p->size = size - half;
        half = size;
    }
    size_t problems = 1;
    MUST(el_store_check(p->store, NULL, NULL, &problems) == EL_OK && problems == 0);
    end_program(p);
    MUST(el_store_close(p->store) == EL_OK && el_store_free(p->store) == EL_OK);
    free(p);
    unlink(path);
    return 0;
}
