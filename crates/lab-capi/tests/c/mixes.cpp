// Loads a library for PiBench and uses it as PiBench does: a load, then mixes of operations drawn at random by some
// threads, each on keys of its own, whose contents it knows. Any difference ends it with 1.
//
//     mixes LIBRARY POOL THREADS ordered|hashed|blind KEY_SIZE VALUE_SIZE
//
// A hashed design cannot scan; a blind one writes without a look at what is there, so its answers to that say nothing.
// With a pool the tree is closed in the end and opened once more, and has what it had.

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tree_api.hpp>
#include <vector>

namespace {

constexpr unsigned THREADS = 3;
constexpr unsigned LOADED = 300;
constexpr unsigned OPERATIONS = 2000;

// Shares of reads, inserts, updates, removals and scans, in percent: PiBench's default first.
const std::vector<std::vector<double>> MIXES = {
    {100, 0, 0, 0, 0}, {0, 100, 0, 0, 0}, {0, 0, 100, 0, 0},     {0, 0, 0, 100, 0},
    {0, 0, 0, 0, 100}, {50, 0, 50, 0, 0}, {40, 20, 20, 10, 10},
};

std::atomic<int> wrong{0};

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::cerr << "line " << __LINE__ << ": " #condition "\n";                              \
            wrong++;                                                                               \
            return;                                                                                \
        }                                                                                          \
    } while (0)

// What the command line says.
std::size_t key_size = 8, value_size = 8;
bool is_ordered = true, is_blind = false;

// Numbers of eight bytes are in their order, others in that of their bytes.
struct in_order {
    bool operator()(const std::string &a, const std::string &b) const {
        if (key_size != 8) return a < b;
        std::uint64_t x = 0, y = 0;
        std::memcpy(&x, a.data(), 8);
        std::memcpy(&y, b.data(), 8);
        return x < y;
    }
};

using contents = std::map<std::string, std::string, in_order>;

// The keys of a thread: scattered over all integers as PiBench's hash does it, never 0; what is before them in longer
// ones is the same for many.
std::string key_of(unsigned thread, unsigned number) {
    const std::uint64_t scattered =
        ((std::uint64_t{number} * THREADS + thread + 1) * 11400714819323198485u) | 1;
    std::string key(key_size, static_cast<char>('a' + scattered % 3));
    std::memcpy(&key[key_size - 8], &scattered, 8);
    return key;
}

// Some designs hold no integer of which the highest bits are set, and not 0.
std::string value_of(std::mt19937_64 &random) {
    std::string value(value_size, '\0');
    for (std::size_t at = 0; at < value_size; at += 8) {
        const std::uint64_t drawn = random() >> 16 | 1;
        std::memcpy(&value[at], &drawn, std::min<std::size_t>(8, value_size - at));
    }
    return value;
}

class user {
  public:
    user(unsigned thread, bool is_single) : thread_(thread), is_single_(is_single), random_(thread + 7) {}

    void run(tree_api &tree) {
        for (unsigned n = 0; n < LOADED; n++) insert(tree);
        for (const auto &mix : MIXES) {
            std::discrete_distribution<int> choose(mix.begin(), mix.end());
            for (unsigned n = 0; n < OPERATIONS / MIXES.size() && !wrong; n++) step(tree, choose(random_));
        }
        compare(tree);
    }

    // From a key above all that there are, a scan finds nothing, also if the design cannot hold that key. One that begins
    // at the last key that it can hold found a key that was less than what was asked for.
    void scan_behind_the_last(tree_api &tree) {
        if (!is_ordered || key_size != 8) return;
        const std::string value = value_of(random_);
        std::uint64_t last = ~std::uint64_t{0};
        const auto key_at = [](const std::uint64_t &number) { return reinterpret_cast<const char *>(&number); };
        for (int tries = 0; !tree.insert(key_at(last), 8, value.data(), value_size); last--) EXPECT(++tries < 8);
        for (std::uint64_t from = last; from != 0 && from - last < 8; from++) {
            char *pairs = nullptr;
            EXPECT(tree.scan(key_at(from), 8, 10, pairs) == (from == last));
        }
        EXPECT(tree.remove(key_at(last), 8));
    }

    // All that it knows; and that no other value comes back, nor a byte behind one.
    void compare(tree_api &tree) {
        for (const auto &key : keys_) {
            const auto entry = known_.find(key);
            std::string found(value_size + 1, '.');
            EXPECT(tree.find(key.data(), key_size, &found[0]) == (entry != known_.end()));
            EXPECT(entry == known_.end() || found == entry->second + '.');
        }
        if (!is_single_ || !is_ordered || known_.empty()) return;
        // All pairs by one scan, from before the first.
        char *pairs = nullptr;
        const int count = tree.scan(known_.begin()->first.data(), key_size, 1 << 14, pairs);
        EXPECT(static_cast<std::size_t>(count) == known_.size());
        for (const auto &[key, value] : known_) {
            EXPECT(key + value == std::string(pairs, key_size + value_size));
            pairs += key_size + value_size;
        }
    }

  private:
    void insert(tree_api &tree) {
        const std::string key = key_of(thread_, next_++), value = value_of(random_);
        EXPECT(tree.insert(key.data(), key_size, value.data(), value_size));
        known_[key] = value;
        keys_.push_back(key);
    }

    void step(tree_api &tree, int operation) {
        const std::string key = keys_[random_() % keys_.size()], value = value_of(random_);
        const auto entry = known_.find(key);
        const bool is_there = entry != known_.end();
        switch (operation) {
        case 0: {
            std::string found(value_size + 1, '.');
            EXPECT(tree.find(key.data(), key_size, &found[0]) == is_there);
            EXPECT(!is_there || found == entry->second + '.');
            break;
        }
        case 1:
            // What is there is not inserted, and stays.
            if (is_there && !is_blind) EXPECT(!tree.insert(key.data(), key_size, value.data(), value_size));
            insert(tree);
            break;
        case 2:
            if (!is_there && is_blind) break;
            EXPECT(tree.update(key.data(), key_size, value.data(), value_size) == is_there);
            if (is_there) entry->second = value;
            break;
        case 3:
            if (!is_there && is_blind) break;
            EXPECT(tree.remove(key.data(), key_size) == is_there);
            if (is_there) known_.erase(entry);
            break;
        default:
            if (is_ordered) scan(tree, key);
        }
    }

    // Keys and values one after another, in order, and none of ours left out.
    void scan(tree_api &tree, const std::string &from) {
        char *pairs = nullptr;
        const int count = tree.scan(from.data(), key_size, 50, pairs);
        EXPECT(count >= 0 && count <= 50);
        const in_order less{};
        std::string before;
        auto mine = known_.lower_bound(from);
        for (int at = 0; at < count; at++, pairs += key_size + value_size) {
            const std::string key(pairs, key_size), value(pairs + key_size, value_size);
            EXPECT(!less(key, from) && (at == 0 || less(before, key)));
            EXPECT(mine == known_.end() || !less(mine->first, key));
            if (mine != known_.end() && mine->first == key) {
                EXPECT(value == mine->second);
                ++mine;
            }
            before = key;
        }
        EXPECT(count == 50 || !is_single_ || mine == known_.end());
    }

    unsigned thread_;
    bool is_single_;
    std::mt19937_64 random_;
    contents known_;
    std::vector<std::string> keys_;
    unsigned next_ = 0;
};

} // namespace

int main(int count, char **arguments) {
    if (count != 7) return 2;
    const unsigned threads = std::atoi(arguments[3]);
    is_ordered = std::string(arguments[4]) != "hashed";
    is_blind = std::string(arguments[4]) == "blind";
    key_size = std::atoi(arguments[5]);
    value_size = std::atoi(arguments[6]);
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    void *create = library ? dlsym(library, "create_tree") : nullptr;
    if (!create) {
        std::cerr << dlerror() << '\n';
        return 1;
    }
    tree_options_t options;
    options.key_size = key_size;
    options.value_size = value_size;
    options.pool_path = arguments[2];
    options.pool_size = 1 << 28;
    options.num_threads = threads;
    const auto open = [&] {
        return std::unique_ptr<tree_api>(reinterpret_cast<decltype(&create_tree)>(create)(options));
    };
    auto tree = open();
    user(0, true).scan_behind_the_last(*tree);
    std::vector<user> users;
    for (unsigned thread = 0; thread < threads; thread++) users.emplace_back(thread, threads == 1);
    std::vector<std::thread> running;
    for (auto &user : users) running.emplace_back([&] { user.run(*tree); });
    for (auto &thread : running) thread.join();
    tree.reset();
    if (!wrong && access(arguments[2], F_OK) == 0) {
        tree = open();
        for (auto &user : users) user.compare(*tree);
    }
    if (!wrong) std::cout << "fine\n";
    return wrong ? 1 : 0;
}
