// Steps of a program (`program.h`) that take many pairs at once or the whole store: loads, many puts, prefixes,
// snapshots, copies, names, numbers, space.
#ifndef EVERLEAF_WHOLE_H
#define EVERLEAF_WHOLE_H

// A map has what the model has.
static void check_map(const program *p, el_map *map) {
    uint64_t shown = 0;
    const pair *found[PAIRS_MAX];
    el_range all;
    memset(&all, 0, sizeof all);
    scanned s = {found, select_pairs(&p->now, &all, found), 0, 0, 0};
    MUST(el_scan(map, NULL, false, see_pair, &s, &shown) == EL_OK && shown == p->now.count);
}

static void step_put_many(program *p) {
    key_room rooms[8];
    el_slice keys[8], values[8];
    size_t count = take(p) % 9;
    for (size_t i = 0; i < count; i++) {
        keys[i] = take_key(p, &rooms[i]);
        values[i] = take_value(p);
    }
    el_slices all_keys = {keys, count}, all_values = {values, count};
    MUST(el_prefetch(p->map, all_keys) == EL_OK);
    MUST(el_put_many(p->map, all_keys, all_values) == EL_OK);
    for (size_t i = 0; i < count; i++) set_pair(&p->now, keys[i], values[i]);
}

// Loads a new map of all pairs, or fails if two of them change places; and drops it.
static void step_load_map(program *p) {
    char name[32];
    // Of this program, so that no other one makes it meanwhile.
    snprintf(name, sizeof name, "load %lx", (unsigned long)(size_t)p);
    el_slice keys[PAIRS_MAX], values[PAIRS_MAX];
    size_t count = p->now.count, turned = take(p);
    for (size_t i = 0; i < count; i++) {
        keys[i] = el_bytes(p->now.pairs[i].key, p->now.pairs[i].key_size);
        values[i] = el_bytes(p->now.pairs[i].value, p->now.pairs[i].value_size);
    }
    int is_sorted = turned % 3 || count < 2;
    if (!is_sorted) {
        size_t at = turned % (count - 1);
        el_slice key = keys[at];
        keys[at] = keys[at + 1];
        keys[at + 1] = key;
    }
    el_slices all_keys = {keys, count}, all_values = {values, count};
    el_map *loaded = NULL;
    int code = el_store_load_map(p->store, name, all_keys, all_values, &loaded);
    MUST(code == (is_sorted ? EL_OK : EL_NOT_SORTED));
    if (!is_sorted) {
        MUST(!loaded && el_store_map(p->store, name, false, &loaded) == EL_NOT_FOUND);
        return;
    }
    check_map(p, loaded);
    MUST(el_store_drop_map(p->store, name) == EL_OK);
    MUST(el_map_free(loaded) == EL_OK);
}

static void step_prefix(program *p) {
    key_room room;
    const pair *found[PAIRS_MAX];
    el_slice prefix = take_key(p, &room);
    size_t count = 0;
    for (size_t i = 0; i < p->now.count; i++) {
        const pair *one = &p->now.pairs[i];
        if (one->key_size >= prefix.size && compare(one->key, prefix.size, prefix.data, prefix.size) == 0)
            found[count++] = one;
    }
    el_iter *iter = NULL;
    MUST(el_iter_prefix(p->map, prefix, &iter) == EL_OK);
    walk(p, iter, found, (long)count);
    MUST(el_iter_free(iter) == EL_OK);
}

static void step_snapshot(program *p) {
    uint64_t pairs = 0;
    int code = el_store_snapshot(p->store, &pairs);
    if (p->has_log) MUST(code == EL_OK && pairs >= p->now.count);
    else MUST(code == EL_UNSUPPORTED);
}

// Saves the store, by a snapshot or beside it, where it is then looked at.
static void step_save(program *p) {
    if (!p->has_log && !p->saved[0]) return;
    uint64_t pairs = 0;
    MUST(el_store_save(p->store, take(p) & 1 ? NULL : &pairs) == EL_OK);
    MUST(pairs == 0 || pairs >= p->now.count);
    if (p->has_log || take(p) & 1) return;
    el_store *store = NULL;
    el_map *map = NULL;
    MUST(el_store_open(p->saved, NULL, &store) == EL_OK);
    // While it is open it is not replaced.
    MUST(el_store_save(p->store, NULL) < 0);
    MUST(el_store_map(store, p->name, false, &map) == EL_OK);
    check_map(p, map);
    MUST(el_map_free(map) == EL_OK && el_store_close(store) == EL_OK && el_store_free(store) == EL_OK);
}

// Copies the store, once in a program, restores the copy, and looks at what is in it.
static void step_copy(program *p) {
    if (!p->copy[0]) return;
    char restored[sizeof p->copy + 9];
    snprintf(restored, sizeof restored, "%s-restored", p->copy);
    uint64_t copied = 0, again = 1;
    MUST(el_store_backup(p->store, p->copy, NULL, NULL, &copied) == EL_OK);
    MUST(el_store_backup(p->store, p->copy, NULL, NULL, NULL) == EL_ALREADY_EXISTS);
    MUST(el_restore(p->copy, restored, NULL, NULL, &again) == EL_OK && again == copied);
    // The copy of the copy: repaired into a third, of another tree, and as new as can be.
    MUST(remove(restored) == 0);
    el_repaired repaired;
    size_t known = 0;
    MUST(el_repair(p->copy, restored, NULL, NULL, el_room(&repaired, sizeof repaired), &known) == EL_OK);
    MUST(known == sizeof repaired && repaired.kept == copied && repaired.dropped == 0 && repaired.is_complete == 1);
    el_options *options = NULL;
    MUST(el_options_new(&options) == EL_OK);
    MUST(el_options_set(options, EL_TREE, take(p) & 1 ? EL_HASHED_LEAF : EL_NBTREE) == EL_OK);
    MUST(el_compact(restored, options, NULL, NULL, NULL) == EL_OK);
    MUST(el_upgrade(restored, options, NULL, NULL) == EL_OK && el_options_free(options) == EL_OK);
    el_store *store = NULL;
    el_map *map = NULL;
    MUST(el_store_open(restored, NULL, &store) == EL_OK);
    MUST(el_store_map(store, p->name, false, &map) == EL_OK);
    check_map(p, map);
    MUST(el_map_free(map) == EL_OK && el_store_close(store) == EL_OK && el_store_free(store) == EL_OK);
    remove(restored);
    remove(p->copy);
    p->copy[0] = '\0';
}

typedef struct {
    const program *p;
    char before[80];
    int has_own, count;
} named;

static void see_name(void *context, el_slice name) {
    named *n = (named *)context;
    const char *own = n->p->name ? n->p->name : "default";
    MUST(name.size > 0 && name.size < sizeof n->before);
    MUST(n->count++ == 0 || compare(n->before, strlen(n->before), name.data, name.size) < 0);
    memcpy(n->before, name.data, name.size);
    n->before[name.size] = '\0';
    n->has_own |= strcmp(own, n->before) == 0;
}

static void step_names(program *p) {
    named n;
    memset(&n, 0, sizeof n);
    n.p = p;
    MUST(el_store_map_names(p->store, see_name, &n) == EL_OK && n.has_own);
    MUST(el_store_map_names(p->store, NULL, &n) == EL_INVALID);
    MUST(strcmp(el_version(), EL_VERSION) == 0 && el_abi_version() == EL_ABI_VERSION);
    MUST(el_strerror((int)take(p) - 128)[0] != '\0');
}

// A program may know fewer numbers than the library, or more.
static void step_numbers(program *p) {
    struct {
        el_statistics numbers;
        unsigned char behind[64];
    } room;
    size_t known = 0, capacity = take(p) % (sizeof room + 1);
    memset(&room, 0xa5, sizeof room);
    MUST(el_store_statistics(p->store, el_room(&room, capacity), &known) == EL_OK && known == sizeof room.numbers);
    const unsigned char *bytes = (const unsigned char *)&room;
    for (size_t i = capacity < known ? capacity : known; i < sizeof room; i++) MUST(bytes[i] == 0xa5);
    if (capacity < known) return;
    MUST(room.numbers.keys >= p->now.count && room.numbers.maps > 0);
    MUST(room.numbers.pool_used_bytes <= room.numbers.pool_size_bytes);
    MUST(room.numbers.pool_size_bytes <= room.numbers.pool_max_bytes);
    MUST(!p->view || room.numbers.views > 0);
}

static void step_space(program *p) {
    uint64_t bytes = 0;
    MUST(el_store_return_space(p->store, take(p) & 1 ? &bytes : NULL) == EL_OK);
    MUST(el_store_sync(p->store) == EL_OK);
    check_map(p, p->map);
}

// Drops the map under its handle, and makes it again; the default one is emptied.
static void step_drop_map(program *p) {
    key_room room;
    el_slice key = take_key(p, &room);
    // The view shows the map that was dropped, and the model has its pairs under the new one.
    if (p->view) step_view(p);
    MUST(el_store_drop_map(p->store, "no such map") == EL_NOT_FOUND);
    MUST(el_store_drop_map(p->store, NULL) == EL_INVALID);
    MUST(el_store_drop_map(p->store, p->name ? p->name : "default") == EL_OK);
    empty(&p->now);
    if (p->name) {
        el_map *old = p->map;
        MUST(el_store_map(p->store, p->name, false, &p->map) == EL_NOT_FOUND);
        MUST(el_put(old, key, key) == EL_MAP_DROPPED && el_contains(old, key) == EL_MAP_DROPPED);
        MUST(el_store_map(p->store, p->name, true, &p->map) == EL_OK);
        MUST(el_put(old, key, key) == EL_MAP_DROPPED && el_map_free(old) == EL_OK);
    }
    check_map(p, p->map);
}

#endif
