// libFuzzer over the integer indexes of all designs: `cargo xtask capi fuzz SECONDS --lab` builds and runs it, by
// `crates/capi/fuzz/run.sh`.
//
// Every input is a program for one index, which begins empty. Its first byte says which design, the lowest bit of the
// second whether the index is in a file, which is closed and opened in the middle. Each further byte says what is done
// next, those behind it with what. A sorted array does the same, and any difference ends the process with the line of
// it.

#include <everleaf_lab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

// There are no more keys than that, so that the array has room.
enum { KEYS = 1024, STEPS_MAX = 6000, DESIGNS_MAX = 255, NAME_SIZE = 64 };

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s: line %d: " #condition ": %s\n", design, __LINE__, el_last_error()); \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

typedef struct {
    uint64_t key, value;
} pair;

typedef struct {
    const unsigned char *data;
    size_t size;
    el_index *index;
    el_index_limits limits;
    // It writes without a look at what is there, so that its answers say nothing of that.
    int is_blind;
    // A hash index cannot scan.
    int has_order;
    pair pairs[KEYS];
    size_t count;
} program;

// The design of the input that runs.
static char design[NAME_SIZE] = "none";

static char designs[DESIGNS_MAX][NAME_SIZE];
static unsigned design_count;

static void keep_name(void *context, el_slice name) {
    (void)context;
    MUST(design_count < DESIGNS_MAX && name.size < NAME_SIZE);
    memcpy(designs[design_count], name.data, name.size);
    designs[design_count++][name.size] = '\0';
}

static unsigned take(program *p) {
    if (p->size == 0) return 0;
    p->size--;
    return *p->data++;
}

// A number between two, both included.
static uint64_t within(uint64_t number, uint64_t first, uint64_t last) {
    uint64_t span = last - first;
    return first + (span == UINT64_MAX ? number : number % (span + 1));
}

// Close to the first key, scattered, or close to the last one.
static uint64_t take_key(program *p) {
    unsigned low = take(p), which = take(p) % 4, number = which << 8 | low;
    uint64_t from_first = within(number, p->limits.first_key, p->limits.last_key);
    uint64_t scattered = within(number * 0x9e3779b97f4a7c15u, p->limits.first_key, p->limits.last_key);
    return which < 2 ? from_first : which < 3 ? scattered : p->limits.last_key - low;
}

static uint64_t take_value(program *p) {
    unsigned byte = take(p);
    uint64_t number = byte & 1 ? byte : byte * 0x9e3779b97f4a7c15u;
    return within(number, p->limits.first_value, p->limits.last_value);
}

// The first pair whose key is not less.
static size_t place(const program *p, uint64_t key) {
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->pairs[middle].key < key) low = middle + 1;
        else high = middle;
    }
    return low;
}

static pair *find(program *p, uint64_t key) {
    size_t at = place(p, key);
    return at < p->count && p->pairs[at].key == key ? &p->pairs[at] : NULL;
}

static void set_pair(program *p, uint64_t key, uint64_t value) {
    pair *here = find(p, key);
    if (!here) {
        MUST(p->count < KEYS);
        here = &p->pairs[place(p, key)];
        memmove(here + 1, here, (size_t)(p->pairs + p->count - here) * sizeof *here);
        p->count++;
        here->key = key;
    }
    here->value = value;
}

static void remove_pair(program *p, uint64_t key) {
    pair *here = find(p, key);
    if (!here) return;
    p->count--;
    memmove(here, here + 1, (size_t)(p->pairs + p->count - here) * sizeof *here);
}

// The answer of a design that looks at what is there.
static void check_code(const program *p, int code, int expected) {
    MUST(code == expected || (p->is_blind && code == EL_OK));
}

static void step_put(program *p) {
    uint64_t key = take_key(p), value = take_value(p);
    MUST(el_index_put(p->index, key, value) == EL_OK);
    set_pair(p, key, value);
}

static void step_insert(program *p) {
    uint64_t key = take_key(p), value = take_value(p);
    int is_there = find(p, key) != NULL;
    check_code(p, el_index_insert(p->index, key, value), is_there ? EL_EXISTS : EL_OK);
    if (!is_there || p->is_blind) set_pair(p, key, value);
}

static void step_update(program *p) {
    uint64_t key = take_key(p), value = take_value(p);
    int is_there = find(p, key) != NULL;
    check_code(p, el_index_update(p->index, key, value), is_there ? EL_OK : EL_NOT_FOUND);
    if (is_there || p->is_blind) set_pair(p, key, value);
}

static void step_remove(program *p) {
    uint64_t key = take_key(p);
    check_code(p, el_index_remove(p->index, key), find(p, key) ? EL_OK : EL_NOT_FOUND);
    remove_pair(p, key);
}

// Many keys behind each other, so that nodes split; or their removal, so that nodes are emptied.
static void step_run(program *p) {
    uint64_t key = take_key(p), value = take_value(p);
    unsigned how = take(p);
    for (unsigned left = how % 64; left > 0 && key < p->limits.last_key; left--, key++) {
        // What is no key of take_key would make the array too small.
        if (p->count >= KEYS - 1 || how & 128) {
            check_code(p, el_index_remove(p->index, key), find(p, key) ? EL_OK : EL_NOT_FOUND);
            remove_pair(p, key);
        } else {
            MUST(el_index_put(p->index, key, value) == EL_OK);
            set_pair(p, key, value);
        }
    }
}

static void step_get(program *p) {
    uint64_t key = take_key(p), value = 0;
    const pair *here = find(p, key);
    MUST(el_index_get(p->index, key, &value) == (here ? EL_OK : EL_NOT_FOUND));
    if (here) MUST(value == here->value);
}

// Into a buffer of exactly this size, so that a sanitizer sees a byte too many.
static void scan_from(program *p, uint64_t from, size_t capacity) {
    unsigned char *bytes = (unsigned char *)malloc(capacity ? capacity : 1);
    if (!bytes) exit(2);
    size_t found = 0, first = place(p, from), expected = p->count - first;
    int code = el_index_scan(p->index, from, el_room(bytes, capacity), &found);
    if (!p->has_order) {
        MUST(code == EL_UNSUPPORTED);
    } else {
        if (expected > capacity / sizeof(pair)) expected = capacity / sizeof(pair);
        MUST(code == EL_OK && found == expected);
        MUST(!found || memcmp(bytes, &p->pairs[first], found * sizeof(pair)) == 0);
    }
    free(bytes);
}

static void step_scan(program *p) {
    uint64_t from = take_key(p);
    scan_from(p, from, take(p) * 9u);
}

// What is wrong is refused, and nothing else happens.
static void step_wrong(program *p) {
    uint64_t key = take_key(p), value = take_value(p);
    uint64_t zeros[64] = {0};
    const el_index_limits *limits = &p->limits;
    switch (take(p) % 7) {
    case 0: MUST(el_index_put(NULL, key, value) == EL_BAD_HANDLE); break;
    case 1: MUST(el_index_get((el_index *)zeros, key, &value) == EL_BAD_HANDLE); break;
    case 2: MUST(el_index_get(p->index, key, NULL) == (find(p, key) ? EL_INVALID : EL_NOT_FOUND)); break;
    case 3: MUST(el_index_count(p->index, NULL) == EL_INVALID); break;
    case 4:
        if (limits->first_key > 0) MUST(el_index_put(p->index, limits->first_key - 1, value) == EL_INVALID);
        break;
    case 5:
        if (limits->last_key < UINT64_MAX) MUST(el_index_put(p->index, limits->last_key + 1, value) == EL_INVALID);
        break;
    default:
        if (limits->last_value < UINT64_MAX) MUST(el_index_put(p->index, key, limits->last_value + 1) == EL_INVALID);
        break;
    }
}

static void check_all(program *p) {
    uint64_t count = UINT64_MAX, value = 0;
    MUST(el_index_count(p->index, &count) == EL_OK && count == p->count);
    scan_from(p, p->limits.first_key, (KEYS + 1) * sizeof(pair));
    for (size_t i = 0; i < p->count; i++)
        MUST(el_index_get(p->index, p->pairs[i].key, &value) == EL_OK && value == p->pairs[i].value);
}

static void run_program(program *p, size_t size) {
    static void (*const steps[])(program *) = {
        step_put, step_put, step_insert, step_update, step_remove, step_run, step_run, step_get, step_scan, step_wrong,
    };
    size_t behind = p->size > size ? p->size - size : 0;
    for (int left = STEPS_MAX; p->size > behind && left > 0; left--) {
        // There is space for a pair in the array behind every step.
        if (p->count >= KEYS - 1) {
            check_code(p, el_index_remove(p->index, p->pairs[0].key), EL_OK);
            remove_pair(p, p->pairs[0].key);
        }
        steps[take(p) % (sizeof steps / sizeof steps[0])](p);
    }
    check_all(p);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static char path[200];
    if (!path[0]) {
        const char *folder = getenv("EVERLEAF_FUZZ_FOLDER");
        snprintf(path, sizeof path, "%s/fuzz-index-%ld.pool", folder ? folder : "/tmp", (long)getpid());
        MUST(el_index_designs(keep_name, NULL) == EL_OK && design_count > 20);
    }
    if (size < 3) return 0;
    program *p = (program *)calloc(1, sizeof *p);
    if (!p) exit(2);
    snprintf(design, sizeof design, "%s", designs[data[0] % design_count]);
    const size_t ending = strlen("-blind"), length = strlen(design);
    p->is_blind = length > ending && strcmp(design + length - ending, "-blind") == 0;
    unlink(path);
    const char *file = data[1] & 1 ? path : NULL;
    int code = el_index_open(design, file, 1 << 28, &p->index);
    if (file && code != EL_OK) {
        // A design of which nothing is in the pool takes no file.
        MUST(!p->index && strstr(el_last_error(), "no contents that outlive the program"));
        file = NULL;
        code = el_index_open(design, file, 1 << 28, &p->index);
    }
    MUST(code == EL_OK && el_index_get_limits(p->index, &p->limits) == EL_OK);
    p->has_order = el_index_scan(p->index, p->limits.first_key, el_room(NULL, 0), NULL) == EL_OK;
    p->data = data + 2;
    p->size = size - 2;
    run_program(p, file ? p->size / 2 : p->size);
    if (file) {
        MUST(el_index_free(p->index) == EL_OK && el_index_open(design, file, 1 << 28, &p->index) == EL_OK);
        check_all(p);
        run_program(p, p->size);
    }
    MUST(el_index_free(p->index) == EL_OK);
    unlink(path);
    free(p);
    return 0;
}
