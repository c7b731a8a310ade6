// A first program in C++: the same as first.c, and a transfer between two accounts.
//
//     c++ -std=c++17 first.cpp $(pkg-config --cflags --libs everleaf) && ./a.out trees.pool

#include <everleaf.hpp>
#include <iostream>

int main(int count, char **arguments) try {
    if (count != 2) {
        std::cerr << "usage: " << arguments[0] << " POOL\n";
        return 2;
    }
    everleaf::store store(arguments[1], everleaf::options().create(true).max_size(1 << 28));
    everleaf::map trees = store.map();
    trees.put("oak", "Quercus");
    trees.put("ash", "Fraxinus");
    std::cout << "oak is " << trees.get("oak").value() << '\n';
    for (auto [key, value] : trees.all()) std::cout << key << ": " << value << '\n';

    everleaf::map accounts = store.map("accounts");
    accounts.put("ann", "100");
    accounts.put("bob", "0");
    everleaf::batch transfer;
    transfer.expect(accounts, "ann", "100").put(accounts, "ann", "60").put(accounts, "bob", "40");
    std::cout << (store.write(transfer) ? "done" : "refused") << '\n';
    std::cout << (store.write(transfer) ? "done" : "refused") << '\n';
    return 0;
} catch (const everleaf::error &error) {
    std::cerr << "error " << error.code() << ": " << error.what() << '\n';
    return 1;
}
