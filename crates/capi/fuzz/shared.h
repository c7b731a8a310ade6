// What threads do with one map that they share, by the same handle, beside programs of their own. Nobody knows what is in
// it at a moment, but what may be: the value of a key is made of the first byte of the key, and two keys are only written
// together, by batches, to values of one length.
#ifndef EVERLEAF_SHARED_H
#define EVERLEAF_SHARED_H

#include "program.h"

typedef struct {
    el_map *map;
    // Of the moment before the threads began.
    el_view *view;
    el_watch *watch;
} shared;

enum { SHARED_KEYS = 24, SHARED_VALUE_MAX = 300 };

// The keys that are written together.
static const char *const TWINS[] = {"y-one", "y-two"};

static el_slice shared_key(program *p, unsigned char *room) {
    room[0] = (unsigned char)('a' + take(p) % SHARED_KEYS);
    return el_bytes(room, 1);
}

static el_slice shared_value(unsigned char *room, unsigned char of, size_t size) {
    memset(room, of, size);
    return el_bytes(room, size);
}

static void check_shared(el_slice key, el_slice value) {
    MUST(key.size > 0);
    const unsigned char *bytes = (const unsigned char *)value.data;
    for (size_t i = 0; i < value.size; i++) MUST(bytes[i] == *(const unsigned char *)key.data);
}

static void see_shared(void *context, el_slice value) {
    check_shared(*(const el_slice *)context, value);
}

static el_decision decide_shared(void *context, const el_slice *value) {
    el_decision answer;
    const el_slice *both = (const el_slice *)context;
    if (value) check_shared(both[0], *value);
    // What it does not say is left as it is.
    answer.what = value && value->size % 3 == 0 ? EL_REMOVE : EL_PUT;
    if (answer.what == EL_PUT) answer.value = both[1];
    return answer;
}

typedef struct {
    unsigned char key[KEY_MAX];
    size_t size;
} last_key;

// In ascending order, each key once.
static int see_shared_pair(void *context, el_slice key, el_slice value) {
    last_key *last = (last_key *)context;
    check_shared(key, value);
    MUST(key.size <= KEY_MAX && compare(last->key, last->size, key.data, key.size) < 0);
    memcpy(last->key, key.data, key.size);
    last->size = key.size;
    return 0;
}

static void walk_shared(program *p, const shared *with) {
    el_iter *iter = NULL;
    unsigned char room[1];
    last_key last = {{0}, 0};
    el_slice key, value;
    int code;
    MUST(el_iter_new(with->map, NULL, &iter) == EL_OK);
    while ((code = el_iter_next(iter, &key, &value)) == EL_OK) MUST(see_shared_pair(&last, key, value) == 0);
    MUST(code == EL_NOT_FOUND);
    el_slice target = shared_key(p, room);
    code = el_iter_seek_back(iter, target, &key, &value);
    MUST(code == EL_OK || code == EL_NOT_FOUND);
    if (code == EL_OK) {
        check_shared(key, value);
        MUST(compare(key.data, key.size, target.data, target.size) <= 0);
    }
    MUST(el_iter_free(iter) == EL_OK);
}

// How long the values of both keys are; 0 if they are not there.
static size_t size_of_twin(el_view *view, el_map *map, int number) {
    unsigned char room[SHARED_VALUE_MAX];
    size_t size = 0;
    el_slice key = el_str(TWINS[number]);
    int code = el_view_get(view, map, key, el_room(room, sizeof room), &size);
    MUST(code == EL_OK || code == EL_NOT_FOUND);
    if (code == EL_OK) check_shared(key, el_bytes(room, size));
    return code == EL_OK ? size : 0;
}

static void write_twins(program *p, const shared *with) {
    unsigned char room[SHARED_VALUE_MAX];
    el_batch *batch = NULL;
    size_t size = 1 + take(p);
    el_slice value = shared_value(room, (unsigned char)TWINS[0][0], size);
    MUST(el_batch_new(&batch) == EL_OK);
    for (int i = 0; i < 2; i++) MUST(el_batch_put(batch, with->map, el_str(TWINS[i]), value) == EL_OK);
    MUST(el_store_write(p->store, batch, NULL) == EL_OK && el_batch_free(batch) == EL_OK);
}

static void view_twins(program *p, const shared *with) {
    el_view *view = NULL;
    MUST(size_of_twin(with->view, with->map, 0) == 0 && size_of_twin(with->view, with->map, 1) == 0);
    MUST(el_view_new(p->store, &view) == EL_OK);
    MUST(size_of_twin(view, with->map, 0) == size_of_twin(view, with->map, 1));
    MUST(el_view_free(view) == EL_OK);
}

// One step on what is shared.
static void step_shared(program *p) {
    const shared *with = (const shared *)p->with;
    unsigned char key_bytes[1], value_bytes[SHARED_VALUE_MAX];
    unsigned what = take(p) % 12;
    el_slice key = shared_key(p, key_bytes);
    el_slice value = shared_value(value_bytes, key_bytes[0], take(p));
    last_key last = {{0}, 0};
    el_slice both[2] = {key, value};
    uint64_t count = 0;
    bool broken = false;
    int code;
    switch (what) {
    case 0:
    case 1: MUST(el_put(with->map, key, value) == EL_OK); break;
    case 2:
        code = el_insert(with->map, key, value);
        MUST(code == EL_OK || code == EL_EXISTS);
        break;
    case 3:
        code = el_remove(with->map, key);
        MUST(code == EL_OK || code == EL_NOT_FOUND);
        break;
    case 4:
        code = el_get_with(with->map, key, see_shared, &key);
        MUST(code == EL_OK || code == EL_NOT_FOUND);
        break;
    case 5: MUST(el_scan(with->map, NULL, false, see_shared_pair, &last, &count) == EL_OK); break;
    case 6: walk_shared(p, with); break;
    case 7:
        code = el_update_with(with->map, key, decide_shared, both);
        MUST(code == EL_OK || code == EL_NOT_FOUND);
        break;
    case 8: write_twins(p, with); break;
    case 9: view_twins(p, with); break;
    case 10: MUST(el_watch_is_broken(with->watch, &broken) == EL_OK); break;
    default: MUST(el_count(with->map, &count) == EL_OK && count <= SHARED_KEYS + 2); break;
    }
}

static void open_shared(shared *with, el_store *store) {
    MUST(el_store_map(store, "shared", true, &with->map) == EL_OK);
    MUST(el_view_new(store, &with->view) == EL_OK);
    MUST(el_watch_new(with->map, el_str(TWINS[0]), &with->watch) == EL_OK);
}

static void end_shared(shared *with) {
    MUST(el_watch_free(with->watch) == EL_OK && el_view_free(with->view) == EL_OK);
    MUST(el_map_free(with->map) == EL_OK);
}

#endif
