// Bad arguments from C: no handle, handles of another kind, places that are NULL, lengths that lie, a store that was
// closed, and closed twice. Each is refused by its code, and nothing is changed; any difference ends with 1.

#include <everleaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(code, expected)                                                                     \
    do {                                                                                           \
        long found = (long)(code);                                                                 \
        if (found != (long)(expected)) {                                                           \
            fprintf(stderr, "line %d: %ld, not %ld: %s\n", __LINE__, found, (long)(expected),      \
                    el_last_error());                                                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void see(void *context, el_slice value) {
    (void)context;
    (void)value;
}

static void find(void *context, size_t index, const el_slice *value) {
    (void)context;
    (void)index;
    (void)value;
}

static int pass(void *context, el_slice key, el_slice value) {
    (void)context;
    (void)key;
    (void)value;
    return 0;
}

static el_decision decide(void *context, const el_slice *value) {
    (void)context;
    (void)value;
    el_decision answer = {EL_PUT, {NULL, 3}, 0};
    return answer;
}

static el_decision decide_long(void *context, const el_slice *value) {
    (void)context;
    (void)value;
    el_decision answer = {EL_PUT, {"v", (size_t)1 << 40}, 0};
    return answer;
}

static el_decision decide_expiring(void *context, const el_slice *value, uint64_t expiry_ms) {
    (void)expiry_ms;
    return decide(context, value);
}

static el_decision decide_expiry(void *context, const uint64_t *expiry_ms) {
    (void)expiry_ms;
    return decide(context, NULL);
}

// Every function of a store or a map, with what is none.
static void use_no_handle(void *any) {
    el_store *store = (el_store *)any;
    el_map *map = (el_map *)any, *made;
    el_iter *iter = (el_iter *)any, *begun;
    el_batch *batch = (el_batch *)any;
    el_view *view = (el_view *)any, *opened;
    el_slice k = el_str("k");
    el_slices one = {&k, 1};
    char room[8];
    void *copy;
    size_t size;
    uint64_t number;
    bool is_gone;
    EXPECT(el_store_close(store), EL_BAD_HANDLE);
    EXPECT(el_store_map(store, NULL, true, &made), EL_BAD_HANDLE);
    EXPECT(el_store_drop_map(store, "m"), EL_BAD_HANDLE);
    EXPECT(el_store_write(store, batch, &size), EL_BAD_HANDLE);
    EXPECT(el_store_sync(store), EL_BAD_HANDLE);
    EXPECT(el_store_check(store, NULL, NULL, &size), EL_BAD_HANDLE);
    EXPECT(el_store_save(store, &number), EL_BAD_HANDLE);
    EXPECT(el_store_defer_sync(store), EL_BAD_HANDLE);
    EXPECT(el_store_wait_deferred(store), EL_BAD_HANDLE);
    EXPECT(el_store_rebuilt(store, NULL, NULL, el_room(room, sizeof room), &size), EL_BAD_HANDLE);
    EXPECT(el_store_is_pool_gone(store, &is_gone), EL_BAD_HANDLE);
    EXPECT(el_store_put_aside_files(store, NULL, NULL, &size), EL_BAD_HANDLE);
    EXPECT(el_fetch_add(map, k, 1, NULL), EL_BAD_HANDLE);
    EXPECT(el_take(map, k, &copy, &size), EL_BAD_HANDLE);
    EXPECT(el_pop(map, false, &copy, &size, NULL, NULL), EL_BAD_HANDLE);
    EXPECT(el_update_with(map, k, decide, NULL), EL_BAD_HANDLE);
    EXPECT(el_update_expiring_with(map, k, decide_expiring, NULL), EL_BAD_HANDLE);
    EXPECT(el_update_expiry_with(map, k, decide_expiry, NULL), EL_BAD_HANDLE);
    EXPECT(el_prefetch(map, one), EL_BAD_HANDLE);
    EXPECT(el_map_numbers(map, el_room(room, sizeof room), &size), EL_BAD_HANDLE);
    EXPECT(el_get(map, k, el_room(room, sizeof room), &size), EL_BAD_HANDLE);
    EXPECT(el_get_copy(map, k, &copy, &size), EL_BAD_HANDLE);
    EXPECT(el_get_with(map, k, see, NULL), EL_BAD_HANDLE);
    EXPECT(el_contains(map, k), EL_BAD_HANDLE);
    EXPECT(el_put(map, k, k), EL_BAD_HANDLE);
    EXPECT(el_remove(map, k), EL_BAD_HANDLE);
    EXPECT(el_count(map, &number), EL_BAD_HANDLE);
    EXPECT(el_clear(map), EL_BAD_HANDLE);
    EXPECT(el_scan(map, NULL, false, pass, NULL, NULL), EL_BAD_HANDLE);
    EXPECT(el_get_many(map, one, find, NULL), EL_BAD_HANDLE);
    EXPECT(el_put_many(map, one, one), EL_BAD_HANDLE);
    EXPECT(el_iter_new(map, NULL, &begun), EL_BAD_HANDLE);
    EXPECT(el_iter_next(iter, NULL, NULL), EL_BAD_HANDLE);
    EXPECT(el_iter_prev(iter, NULL, NULL), EL_BAD_HANDLE);
    EXPECT(el_batch_clear(batch), EL_BAD_HANDLE);
    EXPECT(el_batch_put(batch, map, k, k), EL_BAD_HANDLE);
    EXPECT(el_view_new(store, &opened), EL_BAD_HANDLE);
    EXPECT(el_view_get(view, map, k, el_room(room, sizeof room), &size), EL_BAD_HANDLE);
    EXPECT(el_view_get_many(view, map, one, find, NULL), EL_BAD_HANDLE);
}

// Lengths that lie are told where that can be seen, and nothing is read through them.
static void use_wrong_lengths(el_map *map) {
    el_slice k = el_str("k"), none = el_bytes(NULL, 0), lies = el_bytes(NULL, 5);
    el_slice endless = el_bytes("k", SIZE_MAX);
    el_slices nothing = {NULL, 0}, no_items = {NULL, 1}, too_many = {&k, SIZE_MAX};
    el_slices two_lies = {&lies, 1}, one = {&k, 1};
    char room[4] = "abc";
    size_t size = 7;
    uint64_t keys;
    EXPECT(el_put(map, lies, k), EL_INVALID);
    EXPECT(el_put(map, k, lies), EL_INVALID);
    EXPECT(el_put(map, endless, k), EL_INVALID);
    EXPECT(el_put(map, k, endless), EL_INVALID);
    EXPECT(el_get(map, lies, el_room(room, sizeof room), &size), EL_INVALID);
    EXPECT(el_contains(map, endless), EL_INVALID);
    EXPECT(el_put_many(map, nothing, nothing), EL_OK);
    EXPECT(el_put_many(map, no_items, one), EL_INVALID);
    EXPECT(el_put_many(map, too_many, one), EL_INVALID);
    EXPECT(el_put_many(map, two_lies, one), EL_INVALID);
    EXPECT(el_prefetch(map, no_items), EL_INVALID);
    EXPECT(el_prefetch(map, two_lies), EL_INVALID);
    EXPECT(el_put_many(map, one, nothing), EL_INVALID);
    EXPECT(el_put_columns(map, k, SIZE_MAX, k, 1), EL_INVALID);
    EXPECT(el_count(map, &keys), EL_OK);
    EXPECT(keys, 0);
    EXPECT(el_put(map, none, none), EL_OK);
    EXPECT(el_put(map, k, el_str("longer than the room")), EL_OK);
    EXPECT(el_get(map, k, el_room(NULL, 0), &size), EL_BUFFER_TOO_SMALL);
    EXPECT(size, 20);
    EXPECT(el_get(map, k, el_room(NULL, 20), &size), EL_BUFFER_TOO_SMALL);
    EXPECT(strstr(el_last_error(), "there are 0") != NULL, 1);
    EXPECT(el_get(map, k, el_room(room, sizeof room), NULL), EL_BUFFER_TOO_SMALL);
    EXPECT(memcmp(room, "abc", 4), 0);
    // What was lost: success, and a number of keys found, while nothing was written anywhere.
    EXPECT(el_get_columns(map, k, 1, el_room(NULL, 20), 20, el_room(room, 1), &size), EL_INVALID);
    EXPECT(el_get_columns(map, k, 1, el_room(room, 4), 4, el_room(NULL, 1), &size), EL_INVALID);
    EXPECT(el_get_columns(map, k, 1, el_room(room, 4), 4, el_room(room, 1), &size), EL_TOO_LARGE);
    EXPECT(el_get_columns(map, k, SIZE_MAX, el_room(room, 4), 4, el_room(room, 1), &size),
           EL_INVALID);
    EXPECT(el_get_expiring(map, k, el_room(NULL, 20), &size, &keys), EL_BUFFER_TOO_SMALL);
    EXPECT(el_fetch_add(map, endless, 1, NULL), EL_INVALID);
    EXPECT(el_fetch_add(map, k, 1, NULL), EL_MISMATCH);
    EXPECT(el_take(map, lies, NULL, NULL), EL_INVALID);
    EXPECT(el_update_with(map, k, decide, NULL), EL_INVALID);
    EXPECT(el_update_with(map, k, decide_long, NULL), EL_TOO_LARGE);
    EXPECT(el_update_with(map, k, NULL, NULL), EL_INVALID);
    EXPECT(el_update_expiring_with(map, lies, decide_expiring, NULL), EL_INVALID);
    EXPECT(el_update_expiry_with(map, k, decide_expiry, NULL), EL_INVALID);
    EXPECT(el_map_numbers(map, el_room(NULL, SIZE_MAX), &size), EL_OK);
    EXPECT(el_repair("\xff", "\xfe", NULL, NULL, el_room(NULL, SIZE_MAX), &size), EL_NO_POOL);
    EXPECT(el_repair(NULL, NULL, NULL, NULL, el_room(NULL, 0), NULL), EL_INVALID);
    EXPECT(el_compact(NULL, NULL, NULL, NULL, NULL), EL_INVALID);
    EXPECT(el_upgrade("", NULL, NULL, NULL) < 0, 1);
}

// What no write takes was copied into a batch first, as far as memory went, and the program ended there.
static void add_what_is_too_long(el_map *map) {
    el_slice k = el_str("k"), longest = el_bytes("v", (size_t)1 << 40);
    el_batch *batch = NULL;
    size_t count = 7;
    EXPECT(el_batch_new(&batch), EL_OK);
    EXPECT(el_batch_put(batch, map, longest, k), EL_TOO_LARGE);
    EXPECT(el_batch_put(batch, map, k, longest), EL_TOO_LARGE);
    EXPECT(el_batch_put_expiring(batch, map, k, longest, 1), EL_TOO_LARGE);
    EXPECT(el_batch_expire_at(batch, map, longest, 1), EL_TOO_LARGE);
    EXPECT(el_batch_remove(batch, map, longest), EL_TOO_LARGE);
    EXPECT(el_batch_expect(batch, map, k, &longest), EL_TOO_LARGE);
    EXPECT(el_batch_expect(batch, map, longest, NULL), EL_TOO_LARGE);
    EXPECT(el_batch_expect_expiring(batch, map, k, longest, 1), EL_TOO_LARGE);
    EXPECT(el_batch_count(batch, &count), EL_OK);
    EXPECT(count, 0);
    EXPECT(el_batch_free(batch), EL_OK);
}

static void use_null_places(el_store *store, el_map *map) {
    el_slice k = el_str("k");
    EXPECT(el_options_new(NULL), EL_INVALID);
    EXPECT(el_store_open("x", NULL, NULL), EL_INVALID);
    EXPECT(el_store_map(store, NULL, true, NULL), EL_INVALID);
    EXPECT(el_store_map_names(store, NULL, NULL), EL_INVALID);
    EXPECT(el_get_copy(map, k, NULL, NULL), EL_INVALID);
    EXPECT(el_get_with(map, k, NULL, NULL), EL_INVALID);
    EXPECT(el_count(map, NULL), EL_INVALID);
    EXPECT(el_iter_new(map, NULL, NULL), EL_INVALID);
    EXPECT(el_batch_new(NULL), EL_INVALID);
    EXPECT(el_view_new(store, NULL), EL_INVALID);
    EXPECT(el_scan(map, NULL, false, NULL, NULL, NULL), EL_INVALID);
}

// A store that was closed refuses, as do its maps, and may be closed again.
static void use_closed(el_store *store, el_map *map) {
    el_map *made;
    el_view *opened;
    el_slice k = el_str("k");
    size_t size;
    // Closed, but the map keeps the pool.
    EXPECT(el_store_close(store), EL_STILL_OPEN);
    EXPECT(el_store_close(store), EL_OK);
    EXPECT(el_store_map(store, NULL, true, &made), EL_CLOSED);
    EXPECT(el_store_drop_map(store, "m"), EL_CLOSED);
    EXPECT(el_store_sync(store), EL_CLOSED);
    EXPECT(el_store_check(store, NULL, NULL, &size), EL_CLOSED);
    EXPECT(el_view_new(store, &opened), EL_CLOSED);
    EXPECT(el_map_free(map), EL_OK);
    EXPECT(el_contains(NULL, k), EL_BAD_HANDLE);
}

int main(int count, char **arguments) {
    el_options *options;
    el_store *store = NULL;
    el_map *map = NULL;
    // On the heap, so that a look behind their end is seen.
    uint64_t *zeros = (uint64_t *)calloc(64, 8), *noise = (uint64_t *)malloc(64 * 8);
    if (count != 2 || !zeros || !noise) return 2;
    memset(noise, 0x55, 64 * 8);
    use_no_handle(NULL);
    use_no_handle(zeros);
    use_no_handle(noise);
    use_no_handle((char *)noise + 3);
    EXPECT(el_options_new(&options), EL_OK);
    use_no_handle(options);
    EXPECT(el_store_free((el_store *)options), EL_BAD_HANDLE);
    EXPECT(el_options_set(options, EL_CREATE_NEW, 1), EL_OK);
    EXPECT(el_options_set(options, 4711, 1), EL_INVALID);
    EXPECT(el_store_open(NULL, options, &store), EL_INVALID);
    EXPECT(el_store_open("\xff\xfe/no/such", options, &store) < 0, 1);
    EXPECT(el_store_open(arguments[1], options, &store), EL_OK);
    EXPECT(el_options_free(options), EL_OK);
    EXPECT(el_options_free(NULL) + el_store_free(NULL) + el_map_free(NULL), EL_OK);
    EXPECT(el_iter_free(NULL) + el_batch_free(NULL) + el_view_free(NULL), EL_OK);
    EXPECT(el_store_map(store, NULL, false, &map), EL_OK);
    use_null_places(store, map);
    use_wrong_lengths(map);
    add_what_is_too_long(map);
    use_closed(store, map);
    EXPECT(el_store_free(store), EL_OK);
    free(zeros);
    free(noise);
    puts("fine");
    return 0;
}
