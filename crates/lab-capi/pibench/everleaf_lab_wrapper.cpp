// Every tree design of Everleaf for PiBench (github.com/sfu-dis/pibench): PiBench loads this as a shared
// library. Which design is asked of the environment:
//
//     c++ -std=c++17 -O2 -fPIC -shared -I PIBENCH/include everleaf_lab_wrapper.cpp -I INCLUDE
//         -L LIB -leverleaf_lab -o libeverleaf_lab_pibench.so
//     EVERLEAF_DESIGN=fptree PiBench libeverleaf_lab_pibench.so --pool_path=/mnt/pmem/fptree.pool
//
// Keys and values are the 64-bit integers that PiBench makes by default (--key_size 8 --value_size 8).
// Some designs cannot hold every integer: a key that a design reserves is refused, as not inserted; of a
// value the highest bits are dropped that the design cannot store. Without --pool_path the index is in
// memory.

#include <everleaf_lab.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

// The environment's answer, or another.
std::string asked(const char *name, const char *otherwise) {
    const char *value = std::getenv(name);
    return value && *value ? value : otherwise;
}

class design_tree : public tree_api {
  public:
    explicit design_tree(const tree_options_t &options) {
        if (options.key_size != sizeof(std::uint64_t) || options.value_size != sizeof(std::uint64_t))
            throw std::invalid_argument("the designs hold integers: --key_size 8 --value_size 8");
        const std::string design = asked("EVERLEAF_DESIGN", "hashed-leaf");
        const char *path = options.pool_path.empty() ? nullptr : options.pool_path.c_str();
        el_index *opened = nullptr;
        check(el_index_open(design.c_str(), path, options.pool_size, &opened));
        index_.reset(opened);
        check(el_index_get_limits(opened, &limits_));
        // All bits that every value of the design may have.
        while (mask_ > limits_.last_value) mask_ >>= 1;
    }

    bool find(const char *key, std::size_t, char *value_out) override {
        std::uint64_t value = 0;
        if (!holds(number(key)) || check(el_index_get(index_.get(), number(key), &value)) != EL_OK) return false;
        std::memcpy(value_out, &value, sizeof value);
        return true;
    }

    bool insert(const char *key, std::size_t, const char *value, std::size_t) override {
        return holds(number(key)) && check(el_index_insert(index_.get(), number(key), stored(value))) == EL_OK;
    }

    bool update(const char *key, std::size_t, const char *value, std::size_t) override {
        return holds(number(key)) && check(el_index_update(index_.get(), number(key), stored(value))) == EL_OK;
    }

    bool remove(const char *key, std::size_t) override {
        return holds(number(key)) && check(el_index_remove(index_.get(), number(key))) == EL_OK;
    }

    // Keys and values one after another, in memory of the calling thread until its next scan.
    int scan(const char *key, std::size_t, int count, char *&values_out) override {
        thread_local std::vector<char> pairs;
        pairs.resize(static_cast<std::size_t>(std::max(count, 0)) * 2 * sizeof(std::uint64_t));
        std::size_t found = 0;
        // Of keys that the design cannot hold the library knows what is behind them.
        check(el_index_scan(index_.get(), number(key), el_room(pairs.data(), pairs.size()), &found));
        values_out = pairs.data();
        return static_cast<int>(found);
    }

  private:
    static std::uint64_t number(const char *bytes) {
        std::uint64_t number = 0;
        std::memcpy(&number, bytes, sizeof number);
        return number;
    }
    bool holds(std::uint64_t key) const { return key >= limits_.first_key && key <= limits_.last_key; }
    std::uint64_t stored(const char *bytes) const {
        return std::max(number(bytes) & mask_, limits_.first_value);
    }

    struct closer {
        void operator()(el_index *index) const {
            if (el_index_free(index) < 0) std::fprintf(stderr, "the index: %s\n", el_last_error());
        }
    };

    std::unique_ptr<el_index, closer> index_;
    el_index_limits limits_{};
    std::uint64_t mask_ = ~std::uint64_t{0};
};

} // namespace

extern "C" tree_api *create_tree(const tree_options_t &options) { return new design_tree(options); }
