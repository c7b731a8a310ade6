// Uses the wrapper for PiBench as PiBench does; any difference ends it with 1.

#include "pibench/tree_api.hpp"

#include "../../pibench/everleaf_wrapper.cpp"

#include <iostream>
#include <memory>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::cerr << "line " << __LINE__ << ": " #condition "\n";                              \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

int main(int, char **arguments) {
    tree_options_t options;
    options.pool_path = arguments[1];
    options.pool_size = 1 << 26;
    std::unique_ptr<tree_api> tree(create_tree(options));
    auto bytes = [](const std::uint64_t &number) { return reinterpret_cast<const char *>(&number); };
    // Across the border of a byte, where the order of bytes is not that of numbers.
    for (std::uint64_t n = 200; n < 300; n++) EXPECT(tree->insert(bytes(n), 8, bytes(n), 8));
    const std::uint64_t one = 250, other = 1000;
    std::uint64_t value = 0;
    EXPECT(!tree->insert(bytes(one), 8, bytes(one), 8));
    EXPECT(!tree->update(bytes(other), 8, bytes(one), 8));
    EXPECT(tree->find(bytes(one), 8, reinterpret_cast<char *>(&value)) && value == 250);
    EXPECT(tree->update(bytes(one), 8, bytes(other), 8));
    EXPECT(tree->find(bytes(one), 8, reinterpret_cast<char *>(&value)) && value == 1000);
    char *pairs = nullptr;
    EXPECT(tree->scan(bytes(one), 8, 20, pairs) == 20);
    for (std::uint64_t n = 0; n < 20; n++) {
        std::uint64_t key = 0;
        std::memcpy(&key, pairs + n * 16, 8);
        EXPECT(key == 250 + n);
    }
    EXPECT(tree->scan(bytes(one), 8, 1000, pairs) == 50);
    EXPECT(tree->scan(bytes(one), 8, 0, pairs) == 0);
    EXPECT(tree->remove(bytes(one), 8) && !tree->remove(bytes(one), 8));
    EXPECT(!tree->find(bytes(one), 8, reinterpret_cast<char *>(&value)));
    std::cout << "fine\n";
    return 0;
}
