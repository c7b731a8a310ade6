// libFuzzer over the C interface: `run.sh` builds and runs it.
//
// Every input is a program (`program.h`) in a new pool, so that an input is all that is needed to see a
// finding again. The lowest bits of its first byte say whether the pool is closed and opened in the middle, and, in one
// of eight, whether it has a log; another bit, whether the map has a name.

#include "program.h"
#include <dirent.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

// Removes a pool, what it saved, and the files of its log.
static void remove_pool(const char *path) {
    char folder[260], file[600];
    unlink(path);
    snprintf(file, sizeof file, "%s.backup", path);
    unlink(file);
    snprintf(folder, sizeof folder, "%s.log", path);
    DIR *log = opendir(folder);
    if (!log) return;
    for (struct dirent *one; (one = readdir(log));) {
        snprintf(file, sizeof file, "%s/%s", folder, one->d_name);
        unlink(file);
    }
    closedir(log);
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static char path[200];
    if (!path[0]) {
        const char *folder = getenv("EVERLEAF_FUZZ_FOLDER");
        snprintf(path, sizeof path, "%s/fuzz-%ld.pool", folder ? folder : "/tmp", (long)getpid());
    }
    if (size < 2) return 0;
    remove_pool(path);
    program *p = (program *)calloc(1, sizeof *p);
    if (!p) exit(2);
    size_t half = data[0] & 1 ? size / 2 : size;
    p->has_log = (data[0] & 14) == 14;
    p->name = data[0] & 16 ? "a map" : NULL;
    snprintf(p->copy, sizeof p->copy, "%s-copy", path);
    snprintf(p->saved, sizeof p->saved, "%s.backup", path);
    p->data = data + 1;
    p->size = half - 1;
    for (;;) {
        p->store = open_store(path, p->has_log);
        MUST(el_store_map(p->store, p->name, p->name != NULL, &p->map) == EL_OK);
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
    remove_pool(path);
    return 0;
}
