// Uses the wrapper for PiBench as PiBench does; any difference ends it with 1.

#include "pibench/tree_api.hpp"

#include "../../pibench/everleaf_wrapper.cpp"

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::cerr << "line " << __LINE__ << ": " #condition "\n";                              \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

// Keys of 16 bytes and values of 100, as `--key_size 16 --value_size 100` has them; in the order of their bytes.
static int try_bytes(const std::string &path) {
    tree_options_t options;
    options.key_size = 16;
    options.value_size = 100;
    options.pool_path = path;
    options.pool_size = 1 << 26;
    std::unique_ptr<tree_api> tree(create_tree(options));
    const auto key = [](int number) {
        char text[17];
        std::snprintf(text, sizeof text, "user%012d", number * 7);
        return std::string(text, 16);
    };
    const auto value = [](int number) { return std::string(99, static_cast<char>('a' + number % 26)) + '!'; };
    for (int n = 299; n >= 0; n--) EXPECT(tree->insert(key(n).data(), 16, value(n).data(), 100));
    EXPECT(!tree->insert(key(5).data(), 16, value(5).data(), 100));
    // A byte behind the value must stay what it is.
    std::string found(101, '.');
    EXPECT(tree->find(key(7).data(), 16, &found[0]) && found == value(7) + '.');
    EXPECT(tree->update(key(7).data(), 16, value(8).data(), 100));
    EXPECT(tree->find(key(7).data(), 16, &found[0]) && found == value(8) + '.');
    EXPECT(!tree->update(key(300).data(), 16, value(8).data(), 100));
    EXPECT(tree->remove(key(9).data(), 16) && !tree->find(key(9).data(), 16, &found[0]));
    // Pairs lie one after another: key, value, key, value.
    char *pairs = nullptr;
    EXPECT(tree->scan(key(8).data(), 16, 10, pairs) == 10);
    const int expected[] = {8, 10, 11, 12, 13, 14, 15, 16, 17, 18};
    for (int n = 0; n < 10; n++) {
        const std::string pair(pairs + n * 116, 116);
        EXPECT(pair == key(expected[n]) + value(expected[n]));
    }
    EXPECT(tree->scan(key(298).data(), 16, 10, pairs) == 2);
    return 0;
}

int main(int, char **arguments) {
    EXPECT(try_bytes(std::string(arguments[1]) + ".bytes") == 0);
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
