// Uses the C++ wrapper as a program would; any difference ends it with 1.

#include <everleaf.hpp>
#include <iostream>
#include <map>
#include <stdexcept>

#if __cplusplus >= 202002L
#include <ranges>
static_assert(std::ranges::input_range<everleaf::range>, "views of <ranges> take it");
#endif

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::cerr << "line " << __LINE__ << ": " #condition "\n";                              \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

// What shows pairs is not for a temporary, with which they would go.
template <typename R, typename = void> struct shows_pairs : std::false_type {};
template <typename R> struct shows_pairs<R, std::void_t<decltype(std::declval<R>().seek(""))>> : std::true_type {};
template <typename R, typename = void> struct begins : std::false_type {};
template <typename R> struct begins<R, std::void_t<decltype(std::declval<R>().begin())>> : std::true_type {};
static_assert(shows_pairs<everleaf::range &>::value && begins<everleaf::range &>::value);
static_assert(!shows_pairs<everleaf::range>::value && !begins<everleaf::range>::value);

// Options outlive the expression that sets them.
static_assert(std::is_same_v<decltype(everleaf::options().create(true)), everleaf::options>);

// Pairs that are made when they are looked at.
template <typename T> struct made {
    struct iterator {
        T operator*() const { return {}; }
        iterator &operator++() { return *this; }
        bool operator!=(const iterator &) const { return false; }
    };
    iterator begin() const { return {}; }
    iterator end() const { return {}; }
};
static_assert(!everleaf::detail::lasts_in<made<std::pair<std::string, std::string>>>);
static_assert(!everleaf::detail::lasts_in<made<std::pair<std::string_view, std::string>>>);
static_assert(everleaf::detail::lasts_in<made<std::pair<std::string_view, const std::string &>>>);
static_assert(everleaf::detail::lasts_in<std::map<std::string, std::string>>);

static void keep(void *context, el_slice text) noexcept {
    static_cast<std::vector<std::string> *>(context)->emplace_back(everleaf::detail::view(text));
}

// Whether a call is refused with this code.
template <typename F> static bool is_refused_as(int code, F call) {
    try {
        call();
        return false;
    } catch (const everleaf::error &error) {
        return error.code() == code;
    }
}

int main(int, char **arguments) {
    using namespace std::string_literals;
    everleaf::store store(arguments[1], everleaf::options().create(true).max_size(1 << 26));
    everleaf::map map = store.map("words");
    for (const char *word : {"b", "a", "d", "c"}) map.put(word, std::string(100, *word));
    EXPECT(map.size() == 4 && map.contains("a") && !map.contains("e"));
    EXPECT(map.get("b") == std::string(100, 'b') && !map.get("e"));
    EXPECT(!map.insert("a", "") && map.update("a", "\0x"s) && map.get("a") == "\0x"s);
    EXPECT(map.compare_exchange("e", std::nullopt, "1") && map.compare_exchange("e", "1", std::nullopt));
    EXPECT(!map.compare_exchange("e", "1", "2"));

    std::string order;
    for (auto [key, value] : map.all()) order += key;
    for (auto [key, value] : map.between("b", "d").reversed()) order += key;
    for (auto [key, value] : map.prefix("d")) order += key;
    EXPECT(order == "abcdcbd");
    everleaf::range everything = map.all();
    EXPECT(everything.seek("bb").value().first == "c" && !everything.seek("e"));

    std::size_t found = 0;
    map.get_many({"a", "x", "d"}, [&](std::size_t, auto value) { found += value.has_value(); });
    EXPECT(found == 2);

    everleaf::view view = store.view();
    everleaf::batch batch;
    batch.expect(map, "e", std::nullopt).put(map, "e", "5").remove(map, "a");
    EXPECT(store.write(batch) && !store.write(batch));
    EXPECT(map.get("e") == "5" && !map.contains("a"));
    EXPECT(!view.get(map, "e") && view.get(map, "b") == std::string(100, 'b'));
    std::string then;
    view.get_many(map, {"d", "e", "a"}, [&](std::size_t, auto value) { then += value ? value->substr(0, 1) : "-"; });
    EXPECT(then.size() == 3 && then[1] == '-' && view.get(map, "a")->substr(0, 1) == then.substr(2));
    std::string before;
    for (auto [key, value] : view.all(map)) before += key;
    EXPECT(before == "abcd");

    bool came_out = false;
    try {
        map.see("b", [](std::string_view) { throw std::logic_error("mine"); });
    } catch (const std::logic_error &error) {
        came_out = error.what() == "mine"s;
    }
    EXPECT(came_out);
    try {
        map.put(std::string(70000, 'k'), "");
        return 1;
    } catch (const everleaf::error &error) {
        EXPECT(error.code() == EL_TOO_LARGE);
    }
    // A name ended at its zero byte, and another map was dropped.
    bool is_refused = false;
    try {
        store.drop_map("words\0old"s);
    } catch (const everleaf::error &error) {
        is_refused = error.code() == EL_INVALID;
    }
    EXPECT(is_refused && map.contains("b"));
    // The rest of the interface: many pairs at once, expiry, ranges of views, copies.
    const std::map<std::string, std::string> sorted = {{"a\xff"s, "1"}, {"a\xff\xff"s, "2"}, {"b", "3"}, {"\xff"s, "4"}};
    everleaf::map loaded = store.load_map("loaded", sorted);
    everleaf::view then_loaded = store.view();
    loaded.put_many(std::vector<std::pair<const char *, const char *>>{{"a", "0"}, {"c", "5"}});
    const auto keys_of = [](everleaf::range range) {
        std::string keys;
        for (auto [key, value] : range) (keys += key) += ' ';
        return keys;
    };
    EXPECT(loaded.size() == 6 && keys_of(loaded.prefix("a")) == "a a\xff a\xff\xff ");
    EXPECT(keys_of(then_loaded.prefix(loaded, "a")) == "a\xff a\xff\xff ");
    EXPECT(keys_of(then_loaded.prefix(loaded, "\xff")) == "\xff ");
    EXPECT(keys_of(then_loaded.between(loaded, "b", "z").reversed()) == "b ");
    EXPECT(loaded.expiry("a") == 0u && !loaded.expiry("none") && !loaded.expire_at("none", 1));
    EXPECT(loaded.expire_at("a", 4000000000000u) && loaded.expiry("a") == 4000000000000u);
    EXPECT(loaded.expire_at("a", 1) && !loaded.contains("a"));
    everleaf::batch expiring;
    EXPECT(store.write(expiring.put_expiring(loaded, "brief", "x", 1)) && !loaded.contains("brief"));
    everleaf::batch later;
    EXPECT(store.write(later.expire_at(loaded, "b", 4000000000000u)) && loaded.expiry("b") == 4000000000000u);
    EXPECT(store.map_names() == std::vector<std::string>({"default", "loaded", "words"}));
    EXPECT(store.check().empty());
    const std::string copy = arguments[1] + ".copy"s, again = arguments[1] + ".again"s;
    const std::uint64_t pairs = store.backup(copy);
    EXPECT(everleaf::restore(copy, again) == pairs);
    {
        // How much is done is told, and what is thrown then comes out.
        std::uint64_t done = 0;
        const auto note = [&](std::uint64_t pairs) { done = pairs; };
        const std::string third = arguments[1] + ".third"s, fourth = arguments[1] + ".fourth"s;
        EXPECT(store.backup(third, note) == pairs && done <= pairs);
        EXPECT(everleaf::restore(third, fourth, note) == pairs && everleaf::compact(fourth, {}, note) > 0);
        came_out = false;
        try {
            store.backup(arguments[1] + ".fifth"s, [](std::uint64_t) { throw std::logic_error("mine"); });
        } catch (const std::logic_error &) {
            came_out = true;
        }
        EXPECT(came_out == (done > 0));
        // A map that may not be there; ranges of any ends; which condition did not hold.
        EXPECT(store.existing_map("loaded")->contains("c") && !store.existing_map("missing"));
        EXPECT(store.map_names().size() == 3);
        el_range some{};
        some.from = el_bound_at(EL_EXCLUDED, el_str("a\xff"));
        some.to = el_bound_at(EL_INCLUDED, el_str("c"));
        std::string scanned;
        EXPECT(loaded.scan_within(some, [&](std::string_view key, std::string_view) { scanned += key; }) == 3);
        EXPECT(scanned == "a\xff\xff" "bc" && keys_of(loaded.within(some)) == "a\xff\xff b c ");
        EXPECT(keys_of(then_loaded.within(loaded, some)) == "a\xff\xff b ");
        std::size_t refused = 0;
        everleaf::batch depends;
        depends.expect(loaded, "c", "5").expect(loaded, "c", "6").put(loaded, "c", "7");
        EXPECT(!store.write(depends, refused) && refused == 1 && loaded.get("c") == "5");
        // A decision does not write its own key: it was asked again for ever.
        int asked = 0;
        EXPECT(is_refused_as(EL_UNSUPPORTED, [&] {
            loaded.update_with("c", [&](auto) {
                if (++asked < 1000) loaded.put("c", std::to_string(asked));
                return everleaf::decision::put("8");
            });
        }) || asked == 1000);
        EXPECT(asked < 1000);
        // Options that were moved away are no defaults.
        everleaf::options given;
        const everleaf::options taken = std::move(given);
        EXPECT(is_refused_as(EL_BAD_HANDLE, [&] { everleaf::store(copy, given); }));
        EXPECT(is_refused_as(EL_BAD_HANDLE, [&] { everleaf::compact(copy, given); }));
    }
    {
        std::vector<std::string> lines;
        everleaf::store logged(arguments[1] + ".logged"s, everleaf::options().create(true).max_size(1 << 26)
                                   .durable_on_power_loss().log(keep, &lines));
        logged.map().put("oak", "Quercus");
        EXPECT(logged.snapshot() == 1 && lines.size() == 2);
        logged.close();
        EXPECT(lines.size() == 3 && lines[2] == "closed");
    }
    {
        // Steps of one key, watches, repair and what is smaller.
        const std::string path = arguments[1] + ".atomic"s, mended = arguments[1] + ".mended"s;
        {
            everleaf::store other(path, everleaf::options().create(true).max_size(1 << 26).verify_reads(true)
                                            .verify_scans(false).salvage_log(true));
            everleaf::map counted = other.map();
            EXPECT(counted.fetch_add("n", 5) == 0 && counted.fetch_add("n", 1) == 5 && counted.get("n") == "6");
            EXPECT(!counted.fetch_add("n", INT64_MAX) && counted.take("n") == "6" && !counted.take("n"));
            counted.put_many(std::vector<std::pair<const char *, const char *>>{{"a", "1"}, {"b", ""}, {"c", "3"}});
            EXPECT(counted.pop_first()->first == "a" && counted.pop_last()->second == "3");
            everleaf::watch watch(counted, "b");
            everleaf::batch depends;
            depends.expect_unwritten(watch).put(counted, "b", "2");
            EXPECT(!watch.is_broken() && other.write(depends) && watch.is_broken() && !other.write(depends));
            EXPECT(counted.pop_last()->second == "2" && !counted.pop_last());
            counted.put("left", "1");
            other.defer_sync();
            other.wait_deferred();
            EXPECT(other.save() == 1 && !other.rebuilt());
        }
        try {
            const auto [repaired, lost] = everleaf::repair(path, mended);
            EXPECT(repaired.kept == 1 && repaired.dropped == 0 && repaired.is_complete == 1 && lost.empty());
            EXPECT(everleaf::compact(mended) > 0);
        } catch (const everleaf::error &error) {
            // A repair reserves 64 GiB of addresses, and valgrind has fewer.
            EXPECT("cannot reserve"s == std::string(error.what()).substr(0, 14));
        }
    }
    {
        // One key as one step, by a function; an exception comes out, and the key stays as it is.
        everleaf::map own = store.map("own");
        using everleaf::decision;
        const auto decided = [&](const char *key, const decision &answer) {
            return own.update_with(key, [&](std::optional<std::string_view>) { return answer; });
        };
        EXPECT(!decided("n", decision::put("1")) && own.get("n") == "1" && decided("n", decision::keep()));
        const std::string twos(200, '2'), fours(80, '4');
        EXPECT(own.update_with("n", [&](auto value) { return decision::put(std::string(*value) + twos); }));
        EXPECT(own.get("n") == "1" + twos && own.get_expiring("n")->second == 0);
        EXPECT(decided("n", decision::put_expiring("3", 4000000000000u)) && decided("n", decision::put(fours)));
        EXPECT(own.get_expiring("n")->first == fours && own.get_expiring("n")->second == 4000000000000u);
        EXPECT(decided("n", decision::expire_at(0)) && own.expiry("n") == 0u && !own.get_expiring("none"));
        came_out = false;
        try {
            own.update_with("n", [](auto) -> decision { throw std::logic_error("mine"); });
        } catch (const std::logic_error &) {
            came_out = true;
        }
        EXPECT(came_out && own.contains("n"));
        bool is_told = false;
        const auto told = [&](std::optional<std::string_view> value, std::uint64_t unix_ms) {
            is_told = value == fours && unix_ms == 0;
            return decision::put_expiring("5", 4000000000000u);
        };
        own.prefetch({"n", "none"});
        EXPECT(own.update_expiring_with("n", told) && is_told && own.get("n") == "5");
        const auto by_expiry = [](std::optional<std::uint64_t> unix_ms) { return decision::expire_at(*unix_ms - 1); };
        EXPECT(own.update_expiry_with("n", by_expiry) && own.expiry("n") == 3999999999999u);
        EXPECT(!own.update_expiry_with("none", [](auto) { return decision::keep(); }));
        EXPECT(decided("n", decision::remove()) && !own.contains("n"));

        // Scans in place, which may be ended; iterators from both sides; columns.
        own.put_columns("aabbcc", 2, "123", 1);
        std::string values;
        std::vector<unsigned char> are_there;
        EXPECT(own.get_columns("ccxxaa", 2, values, 1, are_there) == 2 && values[0] == '3' && values[2] == '1');
        EXPECT(are_there == std::vector<unsigned char>({1, 0, 1}));
        is_refused = false;
        try {
            own.get_columns("aa", 0, values, 1, are_there);
        } catch (const everleaf::error &error) {
            is_refused = error.code() == EL_INVALID;
        }
        EXPECT(is_refused);
        std::string seen;
        EXPECT(own.scan([&](std::string_view, std::string_view value) { seen += value; }) == 3);
        const auto until = [&](std::string_view, std::string_view value) { return (seen += value) != "1233"; };
        EXPECT(own.scan(until, true) == 1);
        EXPECT(own.scan_between("aa", "cc", [&](std::string_view key, std::string_view) { seen += key; }, true) == 2);
        EXPECT(seen == "1233bbaa");
        came_out = false;
        try {
            own.scan([&](std::string_view, std::string_view) { throw std::logic_error(seen += "!"); });
        } catch (const std::logic_error &) {
            came_out = true;
        }
        EXPECT(came_out && seen == "1233bbaa!");
        everleaf::range around = own.all();
        EXPECT(around.seek_back("bz")->first == "bb" && !around.seek_back("a") && around.seek("b")->second == "2");
        around.rewind();
        EXPECT(keys_of(std::move(around)) == "aa bb cc ");
        EXPECT(own.numbers().keys == 3 && own.numbers().height > 0);

        everleaf::batch conditions;
        conditions.put(own, "aa", "x").remove(own, "none");
        EXPECT(conditions.size() == 2);
        conditions.clear();
        EXPECT(conditions.size() == 0);
        EXPECT(own.expire_at("aa", 4000000000000u));
        conditions.expect_expiring(own, "aa", "1", 4000000000000u).expect_no_rollback(store.rollback_count());
        EXPECT(store.write(conditions.put(own, "aa", "5")) && !store.write(conditions) && own.get("aa") == "5");
        everleaf::batch rolled;
        EXPECT(!store.write(rolled.remove(own, "aa").expect_no_rollback(store.rollback_count() + 1)));
        EXPECT(!store.has_log_failed() && !store.is_pool_gone() && !store.is_read_only() && store.put_aside_files().empty());
        store.return_space();
        EXPECT(everleaf::version() == EL_VERSION && !everleaf::upgrade(copy).empty() && everleaf::upgrade(copy).empty());
        EXPECT(everleaf::store(copy, everleaf::options().read_only(true)).is_read_only());
        EXPECT(store.drop_map("own"));
    }
#if __cplusplus >= 202002L
    everleaf::range twice = loaded.all();
    std::string first;
    for (auto [key, value] : twice | std::views::take(2)) first += value;
    EXPECT(first == "12");
#endif
    everleaf::map moved = std::move(map);
    EXPECT(moved.remove("b") && !moved.remove("b") && store.drop_map("words"));
    std::cout << "fine\n";
    return 0;
}
