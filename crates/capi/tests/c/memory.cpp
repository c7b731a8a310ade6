// Uses the library in one way while memory runs out: it says so, where it ended the program. Any difference ends it
// with 1.
//
//     memory POOL iterator|view-iterator|view|bounds|seek|scan|names

#include <everleaf.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <sys/resource.h>
#include <unistd.h>

// Whether C++ code gets no memory.
static bool has_none = false;

void *operator new(std::size_t size) {
    void *made = has_none ? nullptr : std::malloc(size ? size : 1);
    if (!made) throw std::bad_alloc();
    return made;
}
void operator delete(void *made) noexcept { std::free(made); }
void operator delete(void *made, std::size_t) noexcept { std::free(made); }

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::cerr << "line " << __LINE__ << ": " #condition ": " << el_last_error() << '\n';   \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

constexpr std::size_t LARGE = 48 << 20;

// Lets the process have so many more bytes of addresses; all if 0.
static void allow(std::size_t more) {
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = limit.rlim_max;
    if (more) {
        unsigned long pages = 0;
        std::FILE *file = std::fopen("/proc/self/statm", "r");
        if (!file || std::fscanf(file, "%lu", &pages) != 1) std::exit(2);
        std::fclose(file);
        limit.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + more;
    }
    if (setrlimit(RLIMIT_AS, &limit)) std::exit(2);
}

// What is asked for while there is not enough memory for the value, and again when there is.
static int run(everleaf::store &store, everleaf::map &map, el_view *view, const std::string &what) {
    const std::string longer(LARGE, 'k');
    const el_slice target = el_bytes(longer.data(), longer.size());
    const el_range bounds = el_between(target, target);
    el_iter *iter = nullptr;
    el_slice key, value;
    char small[10];
    std::size_t size = 0;
    if (what == "iterator" || what == "view-iterator") {
        const auto made = what == "iterator" ? el_iter_new(map.get(), nullptr, &iter)
                                             : el_iter_view(view, map.get(), nullptr, &iter);
        EXPECT(made == EL_OK);
        allow(LARGE / 2);
        EXPECT(el_iter_next(iter, &key, &value) == EL_OUT_OF_MEMORY);
        allow(0);
        // Its place is what it was.
        EXPECT(el_iter_next(iter, &key, &value) == EL_OK && value.size == LARGE);
    } else if (what == "view") {
        allow(LARGE / 2);
        const el_slice large = el_str("large");
        EXPECT(el_view_get(view, map.get(), large, el_room(small, sizeof small), &size) == EL_OUT_OF_MEMORY);
        allow(0);
        EXPECT(el_view_get(view, map.get(), large, el_room(small, sizeof small), &size) == EL_BUFFER_TOO_SMALL);
    } else if (what == "bounds") {
        // Keys that no key reaches are not copied.
        allow(LARGE / 2);
        EXPECT(el_iter_new(map.get(), &bounds, &iter) == EL_OK);
        EXPECT(el_iter_next(iter, &key, &value) == EL_NOT_FOUND);
    } else if (what == "seek") {
        EXPECT(el_iter_new(map.get(), nullptr, &iter) == EL_OK);
        allow(LARGE / 2);
        EXPECT(el_iter_seek_back(iter, target, &key, nullptr) == EL_NOT_FOUND);
    } else if (what == "scan") {
        allow(LARGE / 2);
        const auto see = [](void *, el_slice, el_slice) { return 0; };
        EXPECT(el_scan(map.get(), &bounds, false, see, nullptr, nullptr) == EL_OK);
    } else {
        // A name that could not be kept was left out.
        bool is_told = false;
        has_none = true;
        try {
            store.map_names();
        } catch (const std::bad_alloc &) {
            is_told = true;
        }
        has_none = false;
        EXPECT(is_told && store.map_names().size() == 2);
    }
    EXPECT(el_iter_free(iter) == EL_OK);
    return 0;
}

int main(int, char **arguments) {
    everleaf::store store(arguments[1], everleaf::options().create(true).max_size(1 << 28));
    everleaf::map map = store.map("a name too long to be kept in place");
    map.put("large", std::string(LARGE, 'x'));
    el_view *view = nullptr;
    EXPECT(el_view_new(store.get(), &view) == EL_OK);
    const int failed = run(store, map, view, arguments[2]);
    allow(0);
    EXPECT(el_view_free(view) == EL_OK);
    if (!failed) std::cout << "fine\n";
    return failed;
}
