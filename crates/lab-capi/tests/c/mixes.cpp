// Uses the wrapper for PiBench as PiBench does: a load, then mixes of operations drawn at random by some
// threads, each on keys of its own, whose contents it knows. Any difference ends it with 1.
//
//     mixes DESIGN POOL THREADS

#include "tree_api.hpp"

#include "../../pibench/everleaf_lab_wrapper.cpp"

#include <atomic>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>

namespace {

constexpr unsigned THREADS = 3;
constexpr unsigned LOADED = 300;
constexpr unsigned OPERATIONS = 2000;

// Shares of reads, inserts, updates, removals and scans, in percent: PiBench's default first.
const std::vector<std::vector<double>> MIXES = {
    {100, 0, 0, 0, 0}, {0, 100, 0, 0, 0}, {0, 0, 100, 0, 0},
    {0, 0, 0, 100, 0}, {0, 0, 0, 0, 100}, {40, 20, 20, 10, 10},
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

const char *bytes(const std::uint64_t &number) { return reinterpret_cast<const char *>(&number); }

// The keys of a thread: scattered over all integers as PiBench's hash does it, never 0.
std::uint64_t key_of(unsigned thread, unsigned number) {
    return ((std::uint64_t{number} * THREADS + thread + 1) * 11400714819323198485u) | 1;
}

// Whether the design has its keys in order; a hash index cannot scan.
bool is_ordered = true;

void run(tree_api &tree, unsigned thread, bool is_single) {
    std::mt19937_64 random(thread + 7);
    std::map<std::uint64_t, std::uint64_t> expected;
    unsigned next = 0;
    std::vector<std::uint64_t> keys;
    auto insert = [&] {
        const std::uint64_t key = key_of(thread, next++), value = random() >> 16 | 1;
        EXPECT(tree.insert(bytes(key), 8, bytes(value), 8));
        expected[key] = value;
        keys.push_back(key);
    };
    for (unsigned n = 0; n < LOADED; n++) insert();
    for (const auto &mix : MIXES) {
        std::discrete_distribution<int> choose(mix.begin(), mix.end());
        for (unsigned n = 0; n < OPERATIONS / MIXES.size() && !wrong; n++) {
            const std::uint64_t key = keys[random() % keys.size()], value = random() >> 16 | 1;
            const auto entry = expected.find(key);
            const bool is_there = entry != expected.end();
            std::uint64_t found = 0;
            switch (choose(random)) {
            case 0:
                EXPECT(tree.find(bytes(key), 8, reinterpret_cast<char *>(&found)) == is_there);
                EXPECT(!is_there || found == entry->second);
                break;
            case 1:
                insert();
                break;
            case 2:
                if (!is_there) break;
                EXPECT(tree.update(bytes(key), 8, bytes(value), 8));
                entry->second = value;
                break;
            case 3:
                if (!is_there) break;
                EXPECT(tree.remove(bytes(key), 8));
                expected.erase(entry);
                break;
            default: {
                if (!is_ordered) break;
                char *pairs = nullptr;
                const int count = tree.scan(bytes(key), 8, 50, pairs);
                EXPECT(count >= 0 && count <= 50);
                std::uint64_t before = 0;
                auto mine = expected.lower_bound(key);
                for (int at = 0; at < count; at++) {
                    std::uint64_t pair[2];
                    std::memcpy(pair, pairs + at * 16, 16);
                    EXPECT(pair[0] >= key && pair[0] > before);
                    before = pair[0];
                    while (mine != expected.end() && mine->first < before) {
                        EXPECT(!"a key of ours was left out");
                    }
                    if (mine != expected.end() && mine->first == before) {
                        EXPECT(pair[1] == mine->second);
                        ++mine;
                    }
                }
                EXPECT(count == 50 || !is_single || mine == expected.end());
            }
            }
        }
    }
    for (const auto &[key, value] : expected) {
        std::uint64_t found = 0;
        EXPECT(tree.find(bytes(key), 8, reinterpret_cast<char *>(&found)) && found == value);
    }
}

} // namespace

int main(int count, char **arguments) {
    if (count != 5) return 2;
    is_ordered = std::string(arguments[4]) == "ordered";
    setenv("EVERLEAF_DESIGN", arguments[1], 1);
    const unsigned threads = std::atoi(arguments[3]);
    tree_options_t options;
    options.pool_path = arguments[2];
    options.pool_size = 1 << 28;
    options.num_threads = threads;
    std::unique_ptr<tree_api> tree(create_tree(options));
    std::vector<std::thread> running;
    for (unsigned thread = 0; thread < threads; thread++) {
        running.emplace_back([&tree, thread, threads] { run(*tree, thread, threads == 1); });
    }
    for (auto &thread : running) thread.join();
    if (!wrong) std::cout << "fine\n";
    return wrong ? 1 : 0;
}
