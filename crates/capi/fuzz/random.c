// Random programs over the C interface (`program.h`), which `run.sh` builds: random FOLDER FIRST COUNT runs those of so many seeds,
// each as three threads with a map of their own in one store and one that they share (`shared.h`), and prints `fine`. In the
// end the store is closed while two of them use it.

#include "shared.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { THREADS = 3, BYTES = 2500 };

typedef struct {
    el_store *store;
    uint64_t seed;
    char name[16];
    const char *path;
    const shared *with;
} task;

// A step of splitmix64, in C; the one of Rust is `everleaf_machine::random`.
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void *run_task(void *context) {
    task *t = (task *)context;
    unsigned char *bytes = (unsigned char *)malloc(BYTES);
    program *p = (program *)calloc(1, sizeof *p);
    if (!bytes || !p) exit(2);
    uint64_t state = t->seed;
    for (size_t i = 0; i < BYTES; i++) bytes[i] = (unsigned char)next_random(&state);
    p->data = bytes;
    p->size = BYTES;
    p->store = t->store;
    p->name = t->name;
    p->beside = step_shared;
    p->with = t->with;
    // Others write to their maps meanwhile.
    snprintf(p->copy, sizeof p->copy, "%s-%s", t->path, t->name);
    MUST(el_store_map(p->store, t->name, true, &p->map) == EL_OK);
    run_program(p);
    end_program(p);
    free(p);
    free(bytes);
    return NULL;
}

// Uses a store until it is closed.
static void *use_until_closed(void *context) {
    el_store *store = (el_store *)context;
    el_statistics numbers;
    bool is_read_only = true;
    int code;
    do {
        code = el_store_statistics(store, el_room(&numbers, sizeof numbers), NULL);
        if (code == EL_OK) code = el_store_sync(store);
        if (code == EL_OK) code = el_store_is_read_only(store, &is_read_only);
        MUST(code == EL_CLOSED || (code == EL_OK && !is_read_only));
    } while (code != EL_CLOSED);
    return NULL;
}

static void close_under_calls(el_store *store) {
    pthread_t users[2];
    int code;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&users[i], NULL, use_until_closed, store)) exit(2);
    while ((code = el_store_close(store)) == EL_BUSY) sched_yield();
    MUST(code == EL_STILL_OPEN);
    for (int i = 0; i < 2; i++) pthread_join(users[i], NULL);
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    char path[300];
    snprintf(path, sizeof path, "%s/random-%ld.pool", arguments[1], (long)getpid());
    uint64_t first = strtoull(arguments[2], NULL, 10), seeds = strtoull(arguments[3], NULL, 10);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        el_store *store = open_store(path, 0);
        pthread_t threads[THREADS];
        task tasks[THREADS];
        shared with;
        open_shared(&with, store);
        for (int i = 0; i < THREADS; i++) {
            tasks[i].store = store;
            tasks[i].path = path;
            tasks[i].with = &with;
            tasks[i].seed = seed * THREADS + (uint64_t)i;
            snprintf(tasks[i].name, sizeof tasks[i].name, "map %d", i);
            if (pthread_create(&threads[i], NULL, run_task, &tasks[i])) return 2;
        }
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        size_t problems = 1;
        MUST(el_store_check(store, NULL, NULL, &problems) == EL_OK && problems == 0);
        // The map that was shared keeps the pool.
        close_under_calls(store);
        MUST(el_store_free(store) == EL_OK);
        end_shared(&with);
        unlink(path);
    }
    puts("fine");
    return 0;
}
