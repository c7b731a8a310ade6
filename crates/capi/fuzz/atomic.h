// Steps of a program (`program.h`) that read and write one key as one atomic step, and conditions of batches.
#ifndef EVERLEAF_ATOMIC_H
#define EVERLEAF_ATOMIC_H

// The integer that a value is, in the only way in which it is written.
static int integer_of(const pair *one, long long *number) {
    char digits[32], again[32];
    if (one->value_size == 0 || one->value_size >= sizeof digits) return 0;
    memcpy(digits, one->value, one->value_size);
    digits[one->value_size] = 0;
    *number = strtoll(digits, NULL, 10);
    return (size_t)snprintf(again, sizeof again, "%lld", *number) == one->value_size && !memcmp(again, digits, one->value_size);
}

static void step_add(program *p) {
    key_room room;
    char digits[32];
    el_slice key = take_key(p, &room);
    long long old = 0, amount = (long long)take(p) - 100;
    // Never near the ends: sums that do not fit are another test's.
    const pair *here = find(&p->now, key);
    int is_integer = !here || integer_of(here, &old);
    int64_t before = 77;
    int code = el_fetch_add(p->map, key, amount, take(p) & 1 ? NULL : &before);
    MUST(code == (is_integer ? EL_OK : EL_MISMATCH));
    MUST(before == 77 || before == old);
    if (!is_integer) return;
    int size = snprintf(digits, sizeof digits, "%lld", old + amount);
    set_pair(&p->now, key, el_bytes(digits, (size_t)size));
}

static void step_take(program *p) {
    key_room room;
    el_slice key = take_key(p, &room);
    void *value = NULL;
    size_t size = 0;
    const pair *here = find(&p->now, key);
    MUST(el_take(p->map, key, &value, &size) == (here ? EL_OK : EL_NOT_FOUND));
    if (here) MUST(compare(value, size, here->value, here->value_size) == 0);
    else MUST(!value);
    el_free(value);
    remove_pair(&p->now, key);
}

static void step_pop(program *p) {
    int highest = (int)(take(p) & 1);
    void *key = NULL, *value = NULL;
    size_t key_size = 0, value_size = 0;
    int code = el_pop(p->map, highest, &key, &key_size, &value, &value_size);
    MUST(code == (p->now.count ? EL_OK : EL_NOT_FOUND));
    if (code == EL_OK) {
        const pair *end = &p->now.pairs[highest ? p->now.count - 1 : 0];
        MUST(same(end, el_bytes(key, key_size), el_bytes(value, value_size)));
        remove_pair(&p->now, el_bytes(key, key_size));
    } else {
        MUST(!key && !value);
    }
    el_free(key);
    el_free(value);
}

typedef struct {
    const pair *expected;
    // When the key expires, 0 if it is not there.
    uint64_t expiry_ms;
    el_decision answer;
    int calls;
} decided;

static el_decision decide(void *context, const el_slice *value) {
    decided *d = (decided *)context;
    MUST((value != NULL) == (d->expected != NULL));
    if (value) MUST(compare(value->data, value->size, d->expected->value, d->expected->value_size) == 0);
    d->calls++;
    return d->answer;
}

static el_decision decide_expiring(void *context, const el_slice *value, uint64_t expiry_ms) {
    MUST(expiry_ms == ((decided *)context)->expiry_ms);
    return decide(context, value);
}

static el_decision decide_by_expiry(void *context, const uint64_t *expiry_ms) {
    decided *d = (decided *)context;
    MUST((expiry_ms != NULL) == (d->expected != NULL));
    if (expiry_ms) MUST(*expiry_ms == d->expiry_ms);
    d->calls++;
    return d->answer;
}

static void step_decide(program *p) {
    key_room room;
    el_slice key = take_key(p, &room), value = take_value(p);
    unsigned how = take(p);
    decided d;
    memset(&d, 0, sizeof d);
    d.expected = find(&p->now, key);
    if (d.expected) MUST(el_expiry(p->map, key, &d.expiry_ms) == EL_OK);
    d.answer.what = (int)(how % 6);
    d.answer.value = value;
    // Far away, or never.
    d.answer.expiry_ms = value.size % 2 ? (uint64_t)1 << 50 : 0;
    int is_wrong = d.answer.what > EL_REMOVE, code;
    switch (how / 6 % 3) {
    case 0: code = el_update_with(p->map, key, decide, &d); break;
    case 1: code = el_update_expiring_with(p->map, key, decide_expiring, &d); break;
    default: code = el_update_expiry_with(p->map, key, decide_by_expiry, &d); break;
    }
    MUST(code == (is_wrong ? EL_INVALID : d.expected ? EL_OK : EL_NOT_FOUND) && d.calls > 0);
    if (d.answer.what == EL_PUT || d.answer.what == EL_PUT_EXPIRING) set_pair(&p->now, key, value);
    if (d.answer.what == EL_REMOVE) remove_pair(&p->now, key);
    unsigned char bytes[VALUE_MAX];
    uint64_t at = 1;
    size_t size = 0;
    const pair *here = find(&p->now, key);
    code = el_get_expiring(p->map, key, el_room(bytes, sizeof bytes), &size, &at);
    check_get(here, code, bytes, sizeof bytes, size);
    if (here && d.answer.what >= EL_PUT_EXPIRING && !is_wrong) MUST(at == d.answer.expiry_ms);
}

// A batch that depends on a watch, on the expiry of the key, and on nothing having been rolled back.
static void step_watch(program *p) {
    key_room room;
    el_slice key = take_key(p, &room), value = take_value(p);
    unsigned how = take(p);
    el_watch *watch = NULL;
    el_batch *batch = NULL;
    bool broken = true;
    uint64_t rollbacks = 0, at = 0;
    const pair *here = find(&p->now, key);
    MUST(el_watch_new(p->map, key, &watch) == EL_OK && el_batch_new(&batch) == EL_OK);
    MUST(el_watch_is_broken(watch, &broken) == EL_OK && !broken);
    MUST(el_batch_put(batch, p->map, key, value) == EL_OK && el_batch_expect_unwritten(batch, watch) == EL_OK);
    MUST(el_store_rollback_count(p->store, &rollbacks) == EL_OK);
    MUST(el_batch_expect_no_rollback(batch, rollbacks + (how & 1)) == EL_OK);
    int is_refused = (int)(how & 1);
    if (how & 2 && here) {
        el_slice old = el_bytes(here->value, here->value_size);
        MUST(el_expiry(p->map, key, &at) == EL_OK);
        MUST(el_batch_expect_expiring(batch, p->map, key, old, at + (how >> 2 & 1)) == EL_OK);
        is_refused |= (int)(how >> 2 & 1);
    }
    if (how & 8 && here) {
        // The same value again, which no other condition could tell.
        MUST(el_put(p->map, key, el_bytes(here->value, here->value_size)) == EL_OK);
        MUST(el_watch_is_broken(watch, &broken) == EL_OK && broken);
        is_refused = 1;
    }
    if (how & 16) MUST(el_watch_free(watch) == EL_OK);
    MUST(el_store_write(p->store, batch, NULL) == (is_refused ? EL_MISMATCH : EL_OK));
    MUST(el_batch_free(batch) == EL_OK);
    if (!(how & 16)) MUST(el_watch_free(watch) == EL_OK);
    if (!is_refused) set_pair(&p->now, key, value);
}

// What a thread defers it waits for before anybody is told.
static void step_defer(program *p) {
    key_room room;
    el_slice key = take_key(p, &room), value = take_value(p);
    bool failed = true, gone = true, read_only = true;
    MUST(el_store_defer_sync(p->store) == EL_OK && el_put(p->map, key, value) == EL_OK);
    set_pair(&p->now, key, value);
    MUST(el_store_wait_deferred(p->store) == EL_OK);
    MUST(el_store_has_log_failed(p->store, &failed) == EL_OK && !failed);
    MUST(el_store_is_pool_gone(p->store, &gone) == EL_OK && !gone);
    MUST(el_store_is_read_only(p->store, &read_only) == EL_OK && !read_only);
    el_rebuilt rebuilt;
    MUST(el_store_rebuilt(p->store, NULL, NULL, el_room(&rebuilt, sizeof rebuilt), NULL) == EL_NOT_FOUND);
    size_t count = 1;
    MUST(el_store_put_aside_files(p->store, NULL, NULL, &count) == EL_OK && count == 0);
    el_map_statistics numbers;
    MUST(el_map_numbers(p->map, el_room(&numbers, sizeof numbers), NULL) == EL_OK && numbers.keys == p->now.count);
}

#endif
