// Programs over the C interface, made of any bytes: each byte says what is done next, those behind it with
// what. A model in plain arrays does the same, and any difference ends the process with the line of it.
//
// A program has a map of its own, so that several may run at once in one store.
#ifndef EVERLEAF_PROGRAM_H
#define EVERLEAF_PROGRAM_H

#include <everleaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 40, PAIRS_MAX = 192, VALUE_MAX = 6000, STEPS_MAX = 4000 };

typedef struct {
    unsigned char key[KEY_MAX];
    size_t key_size;
    unsigned char *value;
    size_t value_size;
} pair;

typedef struct {
    pair pairs[PAIRS_MAX];
    size_t count;
} model;

typedef struct program {
    const unsigned char *data;
    size_t size;
    // What is done beside each step, if anything, and with what.
    void (*beside)(struct program *);
    const void *with;
    el_store *store;
    el_map *map;
    // The name of the map; NULL is the default one.
    const char *name;
    // Whether the store has a log.
    int has_log;
    // Where the store is copied to; empty if it was, or is not to be.
    char copy[240];
    // Where a store without a log saves itself; empty if other programs use it, too.
    char saved[240];
    model now;
    // What the view shows, if there is one.
    el_view *view;
    model then;
} program;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: " #condition ": %s\n", __FILE__, __LINE__, el_last_error());   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static unsigned take(program *p) {
    if (p->size == 0) return 0;
    p->size--;
    return *p->data++;
}

// ---- the model

static int compare(const void *a, size_t a_size, const void *b, size_t b_size) {
    size_t common = a_size < b_size ? a_size : b_size;
    int order = common ? memcmp(a, b, common) : 0;
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

// The first pair whose key is not less.
static size_t place(const model *m, el_slice key) {
    size_t at = 0;
    while (at < m->count && compare(m->pairs[at].key, m->pairs[at].key_size, key.data, key.size) < 0) at++;
    return at;
}

static const pair *find(const model *m, el_slice key) {
    size_t at = place(m, key);
    if (at == m->count || compare(m->pairs[at].key, m->pairs[at].key_size, key.data, key.size)) return NULL;
    return &m->pairs[at];
}

static unsigned char *copy_of(el_slice value) {
    unsigned char *copy = (unsigned char *)malloc(value.size + 1);
    if (!copy) exit(2);
    if (value.size) memcpy(copy, value.data, value.size);
    return copy;
}

static void set_pair(model *m, el_slice key, el_slice value) {
    size_t at = place(m, key);
    pair *here = &m->pairs[at];
    unsigned char *copy = copy_of(value);
    if (find(m, key)) {
        free(here->value);
    } else {
        memmove(here + 1, here, (m->count - at) * sizeof *here);
        m->count++;
        if (key.size) memcpy(here->key, key.data, key.size);
        here->key_size = key.size;
    }
    here->value = copy;
    here->value_size = value.size;
}

static void remove_pair(model *m, el_slice key) {
    if (!find(m, key)) return;
    size_t at = place(m, key);
    free(m->pairs[at].value);
    m->count--;
    memmove(&m->pairs[at], &m->pairs[at + 1], (m->count - at) * sizeof m->pairs[0]);
}

static void empty(model *m) {
    while (m->count) free(m->pairs[--m->count].value);
}

static void copy_model(model *to, const model *from) {
    empty(to);
    for (size_t i = 0; i < from->count; i++) {
        const pair *other = &from->pairs[i];
        set_pair(to, el_bytes(other->key, other->key_size), el_bytes(other->value, other->value_size));
    }
}

static int same(const pair *a, el_slice key, el_slice value) {
    return compare(a->key, a->key_size, key.data, key.size) == 0 &&
           compare(a->value, a->value_size, value.data, value.size) == 0;
}

// ---- what a program takes from its bytes

typedef struct {
    unsigned char bytes[KEY_MAX];
    size_t size;
} key_room;

// A few short keys, and longer ones with a common start.
static el_slice take_key(program *p, key_room *room) {
    unsigned byte = take(p);
    room->size = byte & 64 ? (byte & 63) % (KEY_MAX - 1) + 1 : byte % 4;
    memset(room->bytes, byte & 128 ? 'a' : 0, sizeof room->bytes);
    if (room->size) room->bytes[room->size - 1] = (unsigned char)take(p);
    return el_bytes(room->size ? room->bytes : NULL, room->size);
}

static const unsigned char *filler(void) {
    static const unsigned char bytes[VALUE_MAX] = "the value of a key, and more of it";
    return bytes;
}

static el_slice take_value(program *p) {
    unsigned byte = take(p);
    size_t size = byte < 200 ? byte % 64 : byte < 250 ? byte * 4u : VALUE_MAX - byte % 8;
    return el_bytes(filler() + byte % 7, size < VALUE_MAX - 7 ? size : VALUE_MAX - 7);
}

static el_range take_range(program *p, key_room *low, key_room *high) {
    unsigned kinds = take(p);
    el_range range;
    range.from = el_bound_at((int)(kinds % 3), take_key(p, low));
    range.to = el_bound_at((int)(kinds / 3 % 3), take_key(p, high));
    return range;
}

static int is_within(const el_range *range, const pair *one) {
    int from = compare(one->key, one->key_size, range->from.key.data, range->from.key.size);
    int to = compare(one->key, one->key_size, range->to.key.data, range->to.key.size);
    return (range->from.kind == EL_UNBOUNDED || from > 0 || (from == 0 && range->from.kind == EL_INCLUDED)) &&
           (range->to.kind == EL_UNBOUNDED || to < 0 || (to == 0 && range->to.kind == EL_INCLUDED));
}

// The pairs of a range.
static size_t select_pairs(const model *m, const el_range *range, const pair **found) {
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++)
        if (is_within(range, &m->pairs[i])) found[count++] = &m->pairs[i];
    return count;
}

// ---- the steps

static void step_put(program *p) {
    key_room room;
    el_slice key = take_key(p, &room), value = take_value(p);
    MUST(el_put(p->map, key, value) == EL_OK);
    set_pair(&p->now, key, value);
}

static void step_insert(program *p) {
    key_room room;
    el_slice key = take_key(p, &room), value = take_value(p);
    int is_there = find(&p->now, key) != NULL;
    MUST(el_insert(p->map, key, value) == (is_there ? EL_EXISTS : EL_OK));
    if (!is_there) set_pair(&p->now, key, value);
}

static void step_update(program *p) {
    key_room room;
    el_slice key = take_key(p, &room), value = take_value(p);
    int is_there = find(&p->now, key) != NULL;
    MUST(el_update(p->map, key, value) == (is_there ? EL_OK : EL_NOT_FOUND));
    if (is_there) set_pair(&p->now, key, value);
}

static void step_remove(program *p) {
    key_room room;
    el_slice key = take_key(p, &room);
    MUST(el_remove(p->map, key) == (find(&p->now, key) ? EL_OK : EL_NOT_FOUND));
    remove_pair(&p->now, key);
}

static void check_get(const pair *expected, int code, const unsigned char *bytes, size_t capacity, size_t size) {
    if (!expected) {
        MUST(code == EL_NOT_FOUND);
        return;
    }
    MUST(size == expected->value_size);
    if (size > capacity) {
        MUST(code == EL_BUFFER_TOO_SMALL);
    } else {
        MUST(code == EL_OK && compare(bytes, size, expected->value, size) == 0);
    }
}

static void step_get(program *p) {
    key_room room;
    el_slice key = take_key(p, &room);
    size_t capacity = take(p) * 24u, size = 0;
    // Of exactly this size, so that a sanitizer sees a byte too many.
    unsigned char *bytes = (unsigned char *)malloc(capacity ? capacity : 1);
    if (!bytes) exit(2);
    const pair *expected = find(&p->now, key);
    int code = el_get(p->map, key, el_room(bytes, capacity), &size);
    check_get(expected, code, bytes, capacity, size);
    if (p->view) {
        expected = find(&p->then, key);
        code = el_view_get(p->view, p->map, key, el_room(bytes, capacity), &size);
        check_get(expected, code, bytes, capacity, size);
    }
    free(bytes);
    MUST(el_contains(p->map, key) == (find(&p->now, key) ? EL_OK : EL_NOT_FOUND));
}

static void step_get_copy(program *p) {
    key_room room;
    el_slice key = take_key(p, &room);
    void *copy = NULL;
    size_t size = 0;
    const pair *expected = find(&p->now, key);
    int code = el_get_copy(p->map, key, &copy, &size);
    MUST(code == (expected ? EL_OK : EL_NOT_FOUND));
    if (expected) MUST(compare(copy, size, expected->value, expected->value_size) == 0);
    el_free(copy);
}

static void step_exchange(program *p) {
    key_room room;
    el_slice key = take_key(p, &room);
    unsigned how = take(p);
    const pair *here = find(&p->now, key);
    el_slice old = here && how & 1 ? el_bytes(here->value, here->value_size) : take_value(p), value = take_value(p);
    const el_slice *expected = how & 2 ? NULL : &old, *wanted = how & 4 ? NULL : &value;
    int holds = expected ? here && compare(here->value, here->value_size, old.data, old.size) == 0 : !here;
    MUST(el_compare_exchange(p->map, key, expected, wanted) == (holds ? EL_OK : EL_MISMATCH));
    if (holds && wanted) set_pair(&p->now, key, value);
    if (holds && !wanted) remove_pair(&p->now, key);
}

typedef struct {
    const pair **expected;
    size_t count, at, stop;
    int descending;
} scanned;

static int see_pair(void *context, el_slice key, el_slice value) {
    scanned *s = (scanned *)context;
    MUST(s->at < s->count);
    MUST(same(s->expected[s->descending ? s->count - 1 - s->at : s->at], key, value));
    s->at++;
    return s->at == s->stop;
}

static void step_scan(program *p) {
    key_room low, high;
    const pair *found[PAIRS_MAX];
    el_range range = take_range(p, &low, &high);
    scanned s = {found, select_pairs(&p->now, &range, found), 0, take(p), 0};
    s.descending = s.stop & 1;
    uint64_t shown = 0;
    MUST(el_scan(p->map, &range, s.descending, see_pair, &s, &shown) == EL_OK);
    MUST(shown == s.at && s.at == (s.stop && s.stop < s.count ? s.stop : s.count));
}

// Walks an iterator to and fro. `at`: 0 is before the first, `count` + 1 behind the last, -1 both.
static void walk(program *p, el_iter *iter, const pair **found, long count) {
    long at = -1;
    for (unsigned left = take(p) % 64; left > 0; left--) {
        key_room room;
        el_slice key = {NULL, 0}, value = {NULL, 0}, target;
        unsigned way = take(p) % 8;
        int code;
        if (way < 3) {
            at = at == -1 ? 1 : at > count ? at : at + 1;
            code = el_iter_next(iter, &key, &value);
        } else if (way < 5) {
            at = at == -1 ? count : at == 0 ? 0 : at - 1;
            code = el_iter_prev(iter, &key, &value);
        } else if (way == 5) {
            target = take_key(p, &room);
            for (at = 1; at <= count; at++)
                if (compare(found[at - 1]->key, found[at - 1]->key_size, target.data, target.size) >= 0) break;
            code = el_iter_seek(iter, target, &key, &value);
        } else if (way == 6) {
            target = take_key(p, &room);
            for (at = count; at >= 1; at--)
                if (compare(found[at - 1]->key, found[at - 1]->key_size, target.data, target.size) <= 0) break;
            code = el_iter_seek_back(iter, target, &key, &value);
        } else {
            at = -1;
            MUST(el_iter_rewind(iter) == EL_OK);
            continue;
        }
        int is_at = at >= 1 && at <= count;
        MUST(code == (is_at ? EL_OK : EL_NOT_FOUND));
        if (is_at) MUST(same(found[at - 1], key, value));
    }
}

static void step_iterate(program *p) {
    key_room low, high;
    const pair *found[PAIRS_MAX];
    el_range range = take_range(p, &low, &high);
    const model *m = p->view && take(p) & 1 ? &p->then : &p->now;
    size_t count = select_pairs(m, &range, found);
    el_iter *iter = NULL;
    if (m == &p->now) MUST(el_iter_new(p->map, &range, &iter) == EL_OK);
    else MUST(el_iter_view(p->view, p->map, &range, &iter) == EL_OK);
    walk(p, iter, found, (long)count);
    MUST(el_iter_free(iter) == EL_OK);
}

static void step_batch(program *p) {
    el_batch *batch = NULL;
    static const size_t none = (size_t)-1;
    size_t refused = none, expected_refused = none, conditions = 0, changes = 0;
    // The last change, if it is of an expiry: of which key, and when.
    key_room last;
    uint64_t last_at = 0;
    int is_last_expiry = 0;
    model *after = (model *)calloc(1, sizeof *after);
    if (!after) exit(2);
    copy_model(after, &p->now);
    MUST(el_batch_new(&batch) == EL_OK);
    if (take(p) % 4 == 0) {
        key_room room;
        el_slice key = take_key(p, &room);
        MUST(el_batch_put(batch, p->map, key, key) == EL_OK && el_batch_expect(batch, p->map, key, &key) == EL_OK);
        MUST(el_batch_clear(batch) == EL_OK);
    }
    for (unsigned left = take(p) % 8; left > 0 && after->count < PAIRS_MAX - 1; left--) {
        key_room room;
        unsigned what = take(p) % 5;
        el_slice key = take_key(p, &room), value = take_value(p);
        if (what == 4) {
            // Far away, or never.
            last = room;
            last_at = value.size % 2 ? (uint64_t)1 << 50 : 0;
            is_last_expiry = 1;
            MUST(el_batch_expire_at(batch, p->map, key, last_at) == EL_OK);
            changes++;
        } else if (what < 2) {
            // Of odd sizes they expire, but not in this program's time.
            if (value.size % 2) MUST(el_batch_put_expiring(batch, p->map, key, value, (uint64_t)1 << 50) == EL_OK);
            else MUST(el_batch_put(batch, p->map, key, value) == EL_OK);
            set_pair(after, key, value);
            is_last_expiry = 0;
            changes++;
        } else if (what == 2) {
            MUST(el_batch_remove(batch, p->map, key) == EL_OK);
            remove_pair(after, key);
            is_last_expiry = 0;
            changes++;
        } else {
            const pair *here = find(&p->now, key);
            int expects_absence = take(p) & 1;
            if (here && !expects_absence) value = el_bytes(here->value, here->value_size);
            MUST(el_batch_expect(batch, p->map, key, expects_absence ? NULL : &value) == EL_OK);
            if (expects_absence == (here != NULL) && expected_refused == none) expected_refused = conditions;
            conditions++;
        }
    }
    size_t count = 0;
    MUST(el_batch_count(batch, &count) == EL_OK && count == changes);
    int code = el_store_write(p->store, batch, &refused);
    MUST(code == (expected_refused == none ? EL_OK : EL_MISMATCH));
    MUST(code == EL_OK || refused == expected_refused);
    if (code == EL_OK) copy_model(&p->now, after);
    if (code == EL_OK && is_last_expiry) {
        uint64_t at = 1;
        el_slice key = el_bytes(last.size ? last.bytes : NULL, last.size);
        MUST(el_expiry(p->map, key, &at) == (find(&p->now, key) ? EL_OK : EL_NOT_FOUND));
        if (find(&p->now, key)) MUST(at == last_at);
    }
    empty(after);
    free(after);
    MUST(el_batch_free(batch) == EL_OK);
}

static void step_view(program *p) {
    if (p->view) {
        MUST(el_view_free(p->view) == EL_OK);
        p->view = NULL;
    } else {
        MUST(el_view_new(p->store, &p->view) == EL_OK);
        copy_model(&p->then, &p->now);
    }
}

typedef struct {
    const model *m;
    const el_slice *keys;
    size_t at;
} many_seen;

static void see_found(void *context, size_t index, const el_slice *value) {
    many_seen *seen = (many_seen *)context;
    MUST(index == seen->at++);
    const pair *expected = find(seen->m, seen->keys[index]);
    MUST((expected != NULL) == (value != NULL));
    if (expected) MUST(same(expected, seen->keys[index], *value));
}

static void step_get_many(program *p) {
    key_room rooms[16];
    el_slice keys[16];
    size_t count = take(p) % 17;
    for (size_t i = 0; i < count; i++) keys[i] = take_key(p, &rooms[i]);
    el_slices all = {keys, count};
    many_seen seen = {&p->now, keys, 0}, seen_then = {&p->then, keys, 0};
    MUST(el_get_many(p->map, all, see_found, &seen) == EL_OK && seen.at == count);
    if (!p->view) return;
    MUST(el_view_get_many(p->view, p->map, all, see_found, &seen_then) == EL_OK && seen_then.at == count);
}

// Keys of two bytes and values of three, in columns.
static void step_columns(program *p) {
    unsigned char keys[32], values[48], found[16];
    size_t count = take(p) % 17, hits = 0;
    for (size_t i = 0; i < 2 * count; i++) keys[i] = (unsigned char)(take(p) % 4);
    if (take(p) & 1 && p->now.count + count < PAIRS_MAX) {
        memset(values, (int)take(p), sizeof values);
        MUST(el_put_columns(p->map, el_bytes(keys, 2 * count), 2, el_bytes(values, 3 * count), 3) == EL_OK);
        for (size_t i = 0; i < count; i++) set_pair(&p->now, el_bytes(keys + 2 * i, 2), el_bytes(values + 3 * i, 3));
    }
    memset(values, 1, sizeof values);
    int code = el_get_columns(p->map, el_bytes(keys, 2 * count), 2, el_room(values, sizeof values), 3,
                              el_room(found, sizeof found), &hits);
    int is_wrong = 0;
    size_t expected_hits = 0;
    for (size_t i = 0; i < count; i++) {
        const pair *expected = find(&p->now, el_bytes(keys + 2 * i, 2));
        expected_hits += expected != NULL;
        is_wrong |= expected && expected->value_size != 3;
        MUST(found[i] == (expected != NULL));
        if (expected && expected->value_size == 3) MUST(memcmp(values + 3 * i, expected->value, 3) == 0);
    }
    MUST(code == (is_wrong ? EL_TOO_LARGE : EL_OK));
    if (!is_wrong) MUST(hits == expected_hits);
}

static void step_expire(program *p) {
    key_room room;
    el_slice key = take_key(p, &room), value = take_value(p);
    const uint64_t far = (uint64_t)1 << 50;
    uint64_t at = 1;
    if (take(p) & 1) {
        MUST(el_put_expiring(p->map, key, value, far) == EL_OK);
        set_pair(&p->now, key, value);
    } else {
        MUST(el_expire_at(p->map, key, far) == (find(&p->now, key) ? EL_OK : EL_NOT_FOUND));
    }
    if (find(&p->now, key)) MUST(el_expiry(p->map, key, &at) == EL_OK && at == far);
}

static void step_clear(program *p) {
    MUST(el_clear(p->map) == EL_OK);
    empty(&p->now);
}

// What is wrong is refused, and nothing else happens.
static void step_wrong(program *p) {
    key_room room;
    el_slice key = take_key(p, &room);
    el_slice huge = el_bytes(filler(), (size_t)-1), nowhere = el_bytes(NULL, 1 + take(p));
    switch (take(p) % 8) {
    case 0: MUST(el_put(NULL, key, key) == EL_BAD_HANDLE); break;
    case 1: MUST(el_put((el_map *)p->store, key, key) == EL_BAD_HANDLE); break;
    case 2: MUST(el_put(p->map, nowhere, key) == EL_INVALID); break;
    case 3: MUST(el_put(p->map, key, huge) == EL_INVALID); break;
    case 4: MUST(el_get_with(p->map, key, NULL, NULL) == EL_INVALID); break;
    case 5: {
        el_range range = {el_bound_at(7, key), el_bound_at(EL_UNBOUNDED, key)};
        el_iter *iter = NULL;
        MUST(el_iter_new(p->map, &range, &iter) == EL_INVALID && !iter);
        break;
    }
    case 6: MUST(el_put_columns(p->map, key, 0, key, 1) == EL_INVALID); break;
    default: MUST(el_store_map(p->store, "\xff", true, NULL) < 0); break;
    }
}

static void check_all(program *p) {
    uint64_t count = 0, shown = 0;
    const pair *found[PAIRS_MAX];
    el_range all;
    memset(&all, 0, sizeof all);
    scanned s = {found, select_pairs(&p->now, &all, found), 0, 0, 0};
    MUST(el_count(p->map, &count) == EL_OK && count == p->now.count);
    MUST(el_scan(p->map, NULL, false, see_pair, &s, &shown) == EL_OK && shown == p->now.count);
}

#include "atomic.h"
#include "whole.h"

static void run_program(program *p) {
    static void (*const steps[])(program *) = {
        step_put,     step_put,      step_put,      step_insert,   step_update,   step_remove,   step_get,
        step_get,     step_get_copy, step_exchange, step_scan,     step_iterate,  step_iterate,  step_batch,
        step_batch,   step_view,     step_get_many, step_columns,  step_expire,   step_wrong,    step_put_many,
        step_prefix,  step_load_map, step_snapshot, step_copy,     step_names,    step_numbers,  step_space,
        step_drop_map, step_add,      step_take,     step_pop,      step_decide,   step_watch,    step_defer,
        step_save,
    };
    for (int left = STEPS_MAX; p->size > 0 && left > 0; left--) {
        unsigned what = take(p);
        // There is space for a pair in the model behind every step.
        if (what == 255 || p->now.count >= PAIRS_MAX - 20) step_clear(p);
        else steps[what % (sizeof steps / sizeof steps[0])](p);
        if (p->beside) p->beside(p);
    }
    check_all(p);
    if (p->view) step_view(p);
}

// Forgets what the program holds.
static void end_program(program *p) {
    empty(&p->now);
    empty(&p->then);
    MUST(el_map_free(p->map) == EL_OK);
}

// Is told what a store does.
static void see_event(void *context, el_slice text) {
    MUST(context == NULL && text.size > 0 && text.data);
}

// With a log in the folder `path`.log, or without one.
static el_store *open_store(const char *path, int has_log) {
    el_options *options = NULL;
    el_store *store = NULL;
    MUST(el_options_new(&options) == EL_OK);
    MUST(el_options_set(options, EL_CREATE, 1) == EL_OK);
    MUST(el_options_set(options, EL_MAX_SIZE, 1 << 26) == EL_OK);
    MUST(el_options_set(options, EL_SWEEP, 0) == EL_OK);
    MUST(el_options_set(options, EL_DURABILITY, has_log ? EL_POWER : EL_PROCESS) == EL_OK);
    MUST(el_options_log(options, see_event, NULL) == EL_OK);
    MUST(el_store_open(path, options, &store) == EL_OK);
    MUST(el_options_free(options) == EL_OK);
    return store;
}

#endif
