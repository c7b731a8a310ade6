// Loads a tree and runs a mix on it with one thread, by options and with output as PiBench has them, and compares
// every answer with what it knows.

#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tree_api.hpp>

namespace {

[[noreturn]] void fail(const std::string &why) {
    std::fprintf(stderr, "PiBench: %s\n", why.c_str());
    std::exit(1);
}

void expect(bool holds, const char *what) {
    if (!holds) fail(std::string("verification failed: ") + what);
}

using options_t = std::map<std::string, std::string>;

// `-n 5` and `--pool_path=FILE`.
options_t options_of(int count, char **words) {
    options_t found;
    for (int at = 2; at < count; at++) {
        const std::string word = words[at];
        const auto sign = word.find('=');
        if (word.rfind("--", 0) == 0 && sign != std::string::npos) {
            found[word.substr(2, sign - 2)] = word.substr(sign + 1);
        } else if (word.size() == 2 && word[0] == '-' && at + 1 < count) {
            found[word.substr(1)] = words[++at];
        } else {
            fail("unknown option " + word);
        }
    }
    return found;
}

const char *bytes(const std::uint64_t &number) { return reinterpret_cast<const char *>(&number); }

std::uint64_t key_of(std::uint64_t number) { return (number + 1) * 11400714819323198485u >> 8 | 1; }

}  // namespace

int main(int count, char **words) {
    if (count < 2) fail("which library?");
    options_t options = options_of(count, words);
    const auto number = [&](const char *name) { return std::strtod(options[name].c_str(), nullptr); };
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library) fail(dlerror());
    const auto create = reinterpret_cast<decltype(&create_tree)>(dlsym(library, "create_tree"));
    if (!create) fail(dlerror());
    tree_options_t tree_options;
    tree_options.pool_path = options["pool_path"];
    tree_options.pool_size = static_cast<std::size_t>(number("pool_size"));
    std::unique_ptr<tree_api> tree(create(tree_options));

    const auto records = static_cast<std::uint64_t>(number("n"));
    const auto operations = static_cast<std::uint64_t>(number("p"));
    std::map<std::uint64_t, std::uint64_t> known;
    std::uint64_t next = 0, value = 1;
    const auto insert = [&] {
        const std::uint64_t key = key_of(next++);
        known[key] = ++value;
        expect(tree->insert(bytes(key), 8, bytes(value), 8), "insert");
    };
    while (next < records) insert();
    const double reads = number("r"), inserts = reads + number("i"), updates = inserts + number("u"),
                 removals = updates + number("d");
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t at = 0; at < operations; at++) {
        const double draw = static_cast<double>(at * 7919 % operations) / static_cast<double>(operations);
        const std::uint64_t key = key_of(at % records);
        if (draw < reads) {
            std::uint64_t found = 0;
            expect(tree->find(bytes(key), 8, reinterpret_cast<char *>(&found)) && found == known[key], "find");
        } else if (draw < inserts) {
            insert();
        } else if (draw < updates) {
            known[key] = ++value;
            expect(tree->update(bytes(key), 8, bytes(value), 8), "update");
        } else if (draw < removals) {
            expect(tree->remove(bytes(key), 8) == (known.erase(key) == 1), "remove");
        } else {
            char *found = nullptr;
            const int pairs = tree->scan(bytes(key), 8, 10, found);
            expect(pairs >= 1 && std::memcmp(found, &key, 8) == 0, "scan");
        }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    // As PiBench, it repeats what it was given.
    std::printf("Benchmark Options:\n\tTarget: %s\n\tPool: %s\n", words[1], options["pool_path"].c_str());
    // A run may end well and say that it did not go well.
    const char *said = std::getenv("STAND_IN_SAYS");
    std::printf("%s", said ? said : "Verification: passed\n\tFailed operations: 0\n");
    std::printf("Overview:\n\tRun time: %f milliseconds\n\tThroughput: %f ops/s\n", seconds.count() * 1000,
                static_cast<double>(operations) / seconds.count());
}
