// Everleaf as a tree for PiBench (github.com/sfu-dis/pibench): PiBench loads this as a shared library.
//
//     c++ -std=c++17 -O2 -fPIC -shared -I PIBENCH/include everleaf_wrapper.cpp
//         $(pkg-config --cflags --libs everleaf) -o libeverleaf_pibench.so
//     PiBench libeverleaf_pibench.so --pool_path=/mnt/pmem/everleaf.pool --pool_size=1073741824
//
// Keys and values are byte strings of the sizes that PiBench was given; those of 8 bytes are integers in
// PiBench, which are put in the order of their numbers. It does what it is told and nothing more: a pool
// that is there is used as it is.

#include <everleaf.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <tree_api.hpp>
#include <vector>

namespace {

int check(int code) {
    if (code < 0) throw std::runtime_error(el_last_error());
    return code;
}

template <typename T, int (*Free)(T *)> struct freer {
    void operator()(T *handle) const { Free(handle); }
};

// Freed also if what follows in a constructor throws.
template <typename T, int (*Free)(T *)> using handle = std::unique_ptr<T, freer<T, Free>>;

// A key as the store orders it: integers of the machine's byte order with the highest byte first.
class ordered_key {
  public:
    ordered_key(const char *key, std::size_t size) : data_(key), size_(size) {
        if (size == sizeof(std::uint64_t)) {
            std::reverse_copy(key, key + size, bytes_.begin());
            data_ = bytes_.data();
        }
    }
    ordered_key(const ordered_key &) = delete;
    ordered_key &operator=(const ordered_key &) = delete;
    el_slice slice() const { return el_bytes(data_, size_); }

  private:
    const char *data_;
    std::size_t size_;
    std::array<char, sizeof(std::uint64_t)> bytes_{};
};

struct found_value {
    char *out;
    std::size_t size;
    bool fits;
};

void copy_value(void *context, el_slice value) {
    auto *found = static_cast<found_value *>(context);
    found->fits = value.size == found->size;
    if (found->fits) std::memcpy(found->out, value.data, value.size);
}

struct scan_state {
    std::vector<char> *pairs;
    int left;
};

int copy_pair(void *context, el_slice key, el_slice value) {
    auto *state = static_cast<scan_state *>(context);
    if (state->left == 0) return 1;
    const char *bytes = static_cast<const char *>(key.data);
    const ordered_key shown(bytes, key.size);
    const char *back = static_cast<const char *>(shown.slice().data);
    state->pairs->insert(state->pairs->end(), back, back + key.size);
    bytes = static_cast<const char *>(value.data);
    state->pairs->insert(state->pairs->end(), bytes, bytes + value.size);
    return --state->left == 0;
}

class everleaf_tree : public tree_api {
  public:
    explicit everleaf_tree(const tree_options_t &options) : value_size_(options.value_size) {
        el_options *made = nullptr;
        check(el_options_new(&made));
        const handle<el_options, el_options_free> opening(made);
        check(el_options_set(made, EL_CREATE, 1));
        if (options.pool_size != 0) check(el_options_set(made, EL_MAX_SIZE, options.pool_size));
        const std::string path = options.pool_path.empty() ? "everleaf.pool" : options.pool_path;
        el_store *store = nullptr;
        check(el_store_open(path.c_str(), made, &store));
        store_.reset(store);
        el_map *map = nullptr;
        check(el_store_map(store, nullptr, false, &map));
        map_.reset(map);
    }

    bool find(const char *key, std::size_t key_size, char *value_out) override {
        found_value found{value_out, value_size_, false};
        const ordered_key ordered(key, key_size);
        const int code = check(el_get_with(map_.get(), ordered.slice(), copy_value, &found));
        return code == EL_OK && found.fits;
    }

    bool insert(const char *key, std::size_t key_size, const char *value,
                std::size_t value_size) override {
        const ordered_key ordered(key, key_size);
        return check(el_insert(map_.get(), ordered.slice(), el_bytes(value, value_size))) == EL_OK;
    }

    bool update(const char *key, std::size_t key_size, const char *value,
                std::size_t value_size) override {
        const ordered_key ordered(key, key_size);
        return check(el_update(map_.get(), ordered.slice(), el_bytes(value, value_size))) == EL_OK;
    }

    bool remove(const char *key, std::size_t key_size) override {
        const ordered_key ordered(key, key_size);
        return check(el_remove(map_.get(), ordered.slice())) == EL_OK;
    }

    // Keys and values one after another, in memory of the calling thread until its next scan.
    int scan(const char *key, std::size_t key_size, int count, char *&values_out) override {
        thread_local std::vector<char> pairs;
        pairs.clear();
        const ordered_key ordered(key, key_size);
        el_range range{};
        range.from = el_bound_at(EL_INCLUDED, ordered.slice());
        scan_state state{&pairs, std::max(count, 0)};
        check(el_scan(map_.get(), &range, false, copy_pair, &state, nullptr));
        values_out = pairs.data();
        return std::max(count, 0) - state.left;
    }

  private:
    // The map goes first.
    handle<el_store, el_store_free> store_;
    handle<el_map, el_map_free> map_;
    std::size_t value_size_;
};

} // namespace

extern "C" tree_api *create_tree(const tree_options_t &options) { return new everleaf_tree(options); }
