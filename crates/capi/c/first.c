// A first program in C: puts two trees into a store, reads one, and lists both.
//
//     cc first.c $(pkg-config --cflags --libs everleaf) && ./a.out trees.pool

#include <everleaf.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int code) {
    if (code < 0) {
        fprintf(stderr, "error %d: %s\n", code, el_last_error());
        exit(1);
    }
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: %s POOL\n", arguments[0]);
        return 2;
    }
    el_options *options;
    el_store *store;
    el_map *map;
    check(el_options_new(&options));
    check(el_options_set(options, EL_CREATE, 1));
    check(el_options_set(options, EL_MAX_SIZE, 1 << 28));
    check(el_store_open(arguments[1], options, &store));
    check(el_options_free(options));
    check(el_store_map(store, NULL, false, &map));

    check(el_put(map, el_str("oak"), el_str("Quercus")));
    check(el_put(map, el_str("ash"), el_str("Fraxinus")));

    char value[32];
    size_t size;
    check(el_get(map, el_str("oak"), el_room(value, sizeof value), &size));
    printf("oak is %.*s\n", (int)size, value);

    el_iter *iter;
    el_slice key, name;
    int code;
    check(el_iter_new(map, NULL, &iter));
    while ((code = el_iter_next(iter, &key, &name)) == EL_OK) {
        printf("%.*s: %.*s\n", (int)key.size, (const char *)key.data, (int)name.size,
               (const char *)name.data);
    }
    // EL_NOT_FOUND is the end, and no error.
    check(code);
    check(el_iter_free(iter));
    check(el_map_free(map));
    check(el_store_close(store));
    check(el_store_free(store));
    return 0;
}
