// Uses the C interface as a program would, with threads; any difference ends it with 1.

#include <everleaf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(code, expected)                                                                     \
    do {                                                                                           \
        int found = (code);                                                                        \
        if (found != (expected)) {                                                                 \
            fprintf(stderr, "line %d: %d, not %d: %s\n", __LINE__, found, (expected),              \
                    el_last_error());                                                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static el_map *map;

static void *work(void *number) {
    char key[32], value[8];
    for (int i = 0; i < 200; i++) {
        size_t size = (size_t)snprintf(key, sizeof key, "%d %d", *(int *)number, i);
        EXPECT(el_put(map, el_bytes(key, size), el_bytes(key, 3)), EL_OK);
        EXPECT(el_get(map, el_bytes(key, size), el_room(value, sizeof value), &size), EL_OK);
        EXPECT(memcmp(value, key, 3), 0);
    }
    return NULL;
}

static int sum(void *context, el_slice key, el_slice value) {
    *(size_t *)context += key.size + value.size;
    return 0;
}

int main(int count, char **arguments) {
    el_options *options;
    el_store *store = NULL;
    if (count != 2 || el_abi_version() != EL_ABI_VERSION) return 2;
    // The header and the library are of one version here.
    EXPECT(strcmp(el_version(), EL_VERSION), 0);
    EXPECT(atoi(el_version()), EL_VERSION_MAJOR);
    EXPECT(el_options_new(&options), EL_OK);
    EXPECT(el_options_set(options, EL_CREATE_NEW, 1), EL_OK);
    EXPECT(el_options_set(options, EL_MAX_SIZE, 1 << 26), EL_OK);
    EXPECT(el_store_open(arguments[1], options, &store), EL_OK);
    EXPECT(el_options_free(options), EL_OK);
    EXPECT(el_store_map(store, NULL, false, &map), EL_OK);

    pthread_t threads[3];
    int numbers[3];
    for (int i = 0; i < 3; i++) {
        numbers[i] = i;
        EXPECT(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
    }
    for (int i = 0; i < 3; i++) EXPECT(pthread_join(threads[i], NULL), 0);

    uint64_t keys = 0, shown = 0;
    size_t bytes = 0;
    EXPECT(el_count(map, &keys), EL_OK);
    EXPECT((int)keys, 600);
    el_range range = el_between(el_str("1"), el_str("2"));
    EXPECT(el_scan(map, &range, true, sum, &bytes, &shown), EL_OK);
    EXPECT((int)shown, 200);

    el_iter *iter;
    el_slice key, value;
    EXPECT(el_iter_new(map, &range, &iter), EL_OK);
    EXPECT(el_iter_prev(iter, &key, &value), EL_OK);
    EXPECT((int)key.size, 4);
    EXPECT(memcmp(key.data, "1 99", 4), 0);
    EXPECT(el_iter_next(iter, &key, &value), EL_NOT_FOUND);
    EXPECT(el_iter_free(iter), EL_OK);

    void *copy;
    size_t size;
    EXPECT(el_get_copy(map, el_str("0 0"), &copy, &size), EL_OK);
    EXPECT(memcmp(copy, "0 0", size), 0);
    el_free(copy);

    el_statistics numbers_of;
    EXPECT(el_store_statistics(store, el_room(&numbers_of, sizeof numbers_of), &size), EL_OK);
    EXPECT((int)size, (int)sizeof numbers_of);
    EXPECT((int)numbers_of.keys, 600);
    EXPECT(el_get(NULL, el_str("k"), el_room(NULL, 0), NULL), EL_BAD_HANDLE);

    EXPECT(el_map_free(map), EL_OK);
    EXPECT(el_store_close(store), EL_OK);
    EXPECT(el_store_sync(store), EL_CLOSED);
    EXPECT(el_store_free(store), EL_OK);
    puts("fine");
    return 0;
}
