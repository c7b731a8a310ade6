// Everleaf for C++17: everleaf.h with lifetimes, string views, exceptions and ranges. Header only.
//
//     everleaf::store store("trees.pool", everleaf::options().create(true));
//     everleaf::map map = store.map();
//     map.put("oak", "Quercus");
//     for (auto [key, value] : map.all()) std::cout << key << ": " << value << '\n';
//
// Threads and forked processes: as everleaf.h says. Functions that are passed in may throw: the exception
// comes out of the call that they were passed to.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "everleaf.h"

namespace everleaf {

// The version of the library, such as "1.2.3".
inline std::string_view version() noexcept { return el_version(); }

// What went wrong: a code of everleaf.h, and its text.
class error : public std::runtime_error {
  public:
    error(int code, const std::string &text) : std::runtime_error(text), code_(code) {}
    int code() const noexcept { return code_; }

  private:
    int code_;
};

namespace detail {

inline el_slice slice(std::string_view bytes) { return el_bytes(bytes.data(), bytes.size()); }

inline std::string_view view(el_slice slice) {
    return {static_cast<const char *>(slice.data), slice.size};
}

// Passes on an answer, throws an error.
inline int check(int code) {
    if (code < 0) throw error(code, el_last_error());
    return code;
}

// Refuses a library of another interface than this header's.
inline void check_library() {
    if (el_abi_version() != EL_ABI_VERSION) throw error(EL_UNSUPPORTED, "another library version");
}

template <typename T, int (*Free)(T *)> struct freer {
    void operator()(T *handle) const noexcept { Free(handle); }
};

template <typename T, int (*Free)(T *)> using handle = std::unique_ptr<T, freer<T, Free>>;

// The text of a name or path, whose end C knows by a zero byte.
inline const char *text(const std::string &name) {
    if (name.find('\0') != std::string::npos) {
        throw error(EL_INVALID, "a name or path has a zero byte in it, which C takes for its end");
    }
    return name.c_str();
}

// Calls a function that C code knows by a pointer, and keeps its exception for later.
template <typename F> struct carried {
    F &call;
    std::exception_ptr thrown;

    template <typename... A> bool run(A... arguments) noexcept {
        try {
            call(arguments...);
            return true;
        } catch (...) {
            thrown = std::current_exception();
            return false;
        }
    }

    void rethrow() const {
        if (thrown) std::rethrow_exception(thrown);
    }
};

inline std::vector<el_slice> slices(const std::vector<std::string_view> &keys) {
    std::vector<el_slice> slices;
    slices.reserve(keys.size());
    for (std::string_view key : keys) slices.push_back(slice(key));
    return slices;
}

// Asks `get` for many keys, and calls `call(index, optional<string_view>)` for each.
template <typename F, typename G> void many(const std::vector<std::string_view> &keys, F &call, G get) {
    const std::vector<el_slice> slices = detail::slices(keys);
    detail::carried<F> carried{call, nullptr};
    auto shown = [](void *context, std::size_t index, const el_slice *value) noexcept {
        auto found = value ? std::optional(view(*value)) : std::nullopt;
        auto *carried = static_cast<detail::carried<F> *>(context);
        if (!carried->thrown) carried->run(index, found);
    };
    const int code = get(el_slices{slices.data(), slices.size()}, shown, &carried);
    carried.rethrow();
    check(code);
}

// Whether the bytes of what an element of a pair is, or refers to, stay where they are when the pair is gone.
template <typename T>
inline constexpr bool stays = std::is_lvalue_reference_v<T> || std::is_same_v<std::decay_t<T>, std::string_view> ||
                              std::is_pointer_v<std::decay_t<T>>;

// Whether the bytes of all pairs stay when the next pair is looked at: not those of strings in pairs that are made only then.
template <typename R> struct lasts : std::is_lvalue_reference<R> {};
template <typename K, typename V> struct lasts<std::pair<K, V>> : std::bool_constant<stays<K> && stays<V>> {};

template <typename P> inline constexpr bool lasts_in = lasts<decltype(*std::begin(std::declval<const P &>()))>::value;

// The keys and values of pairs of anything that is a string_view. The bytes stay where they are.
struct columns {
    std::vector<el_slice> keys, values;

    template <typename P> explicit columns(const P &pairs) {
        static_assert(lasts_in<P>, "these pairs are made one after another: put them into a container before");
        for (const auto &[key, value] : pairs) {
            keys.push_back(slice(key));
            values.push_back(slice(value));
        }
    }
    el_slices all_keys() const { return {keys.data(), keys.size()}; }
    el_slices all_values() const { return {values.data(), values.size()}; }
};

// Bytes that the library has allocated.
struct given {
    void *data = nullptr;
    std::size_t size = 0;

    given() = default;
    given(const given &) = delete;
    given &operator=(const given &) = delete;
    ~given() { el_free(data); }
    std::string text() const { return {static_cast<const char *>(data), size}; }
};

// Asks `get` for a value, with more room until it fits. Nothing: there is none.
template <typename G> std::optional<std::string> fitted(G get) {
    std::string value(64, '\0');
    std::size_t size = 0;
    for (;;) {
        const int code = get(el_room(value.data(), value.size()), &size);
        if (code != EL_BUFFER_TOO_SMALL) {
            if (check(code) != EL_OK) return std::nullopt;
            value.resize(size);
            return value;
        }
        value.resize(size);
    }
}

// Texts that are told. Throws in the end if there was no memory for one.
class texts {
  public:
    static void keep(void *context, el_slice text) noexcept {
        auto *to = static_cast<texts *>(context);
        try {
            to->kept_.emplace_back(view(text));
        } catch (...) {
            to->thrown_ = std::current_exception();
        }
    }

    std::vector<std::string> all() && {
        if (thrown_) std::rethrow_exception(thrown_);
        return std::move(kept_);
    }

  private:
    std::vector<std::string> kept_;
    std::exception_ptr thrown_;
};

// Tells a function how many pairs are done; nothing is told once it has thrown.
template <typename F> class progress {
  public:
    explicit progress(F &call) : carried_{call, nullptr} {}

    static void tell(void *context, std::uint64_t pairs) noexcept {
        auto *to = static_cast<progress *>(context);
        if (!to->carried_.thrown) to->carried_.run(pairs);
    }

    // What a call has answered, to which this was passed.
    void end(int code) const {
        carried_.rethrow();
        check(code);
    }

  private:
    carried<F> carried_;
};

// Is told how many pairs are done, and wants to know nothing.
inline void ignore_progress(std::uint64_t) noexcept {}

// The range of the keys that start with `prefix`; `end` holds its bound.
inline el_range prefixed(std::string_view prefix, std::string &end) {
    end.assign(prefix);
    while (!end.empty() && end.back() == '\xff') end.pop_back();
    el_range range{};
    range.from = el_bound_at(EL_INCLUDED, slice(prefix));
    range.to = el_bound_at(EL_UNBOUNDED, slice(end));
    if (!end.empty()) {
        end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
        range.to = el_bound_at(EL_EXCLUDED, slice(end));
    }
    return range;
}

} // namespace detail

// How to open a store; see EL_CREATE and what follows it in everleaf.h.
class options {
  public:
    options() {
        detail::check_library();
        el_options *made = nullptr;
        detail::check(el_options_new(&made));
        handle_.reset(made);
    }

    options &set(int option, std::uint64_t number) & {
        detail::check(el_options_set(handle_.get(), option, number));
        return *this;
    }
    options set(int option, std::uint64_t number) && { return std::move(set(option, number)); }
    options create(bool yes) && { return std::move(set(EL_CREATE, yes)); }
    options read_only(bool yes) && { return std::move(set(EL_READ_ONLY_OPEN, yes)); }
    options max_size(std::uint64_t bytes) && { return std::move(set(EL_MAX_SIZE, bytes)); }
    // Go on although the log is damaged, with what can be proven of it (`store::rebuilt`).
    options salvage_log(bool yes) && { return std::move(set(EL_SALVAGE_LOG, yes)); }
    // Compare the check sums of what a get finds (default: no), and of what is iterated over (default: yes).
    options verify_reads(bool yes) && { return std::move(set(EL_VERIFY_READS, yes)); }
    options verify_scans(bool yes) && { return std::move(set(EL_VERIFY_SCANS, yes)); }
    options durable_on_power_loss() && { return std::move(set(EL_DURABILITY, EL_POWER)); }
    // See el_options_log: `tell` must not throw, and `context` lives as long as the store.
    options log(el_text_fn tell, void *context) && {
        detail::check(el_options_log(handle_.get(), tell, context));
        return std::move(*this);
    }

    // The same as `get`; throws if they were moved away, where C would take the defaults.
    el_options *made() const {
        if (!handle_) throw error(EL_BAD_HANDLE, "the options were moved away");
        return handle_.get();
    }
    el_options *get() const noexcept { return handle_.get(); }

  private:
    detail::handle<el_options, el_options_free> handle_;
};

using pair = std::pair<std::string_view, std::string_view>;

// Pairs in the order of their keys. begin() may be called once; a pair is valid until the next one, and until the range is
// gone: what shows pairs is not for a temporary. Copies of up to 256 pairs are fetched at a time, so a pair may be shown as
// it was a moment ago.
class range {
  public:
    class iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = pair;
        using difference_type = std::ptrdiff_t;
        using pointer = const pair *;
        using reference = const pair &;

        iterator() = default;
        iterator(el_iter *iter, bool back) : iter_(iter), back_(back) { ++*this; }
        reference operator*() const noexcept { return at_; }
        pointer operator->() const noexcept { return &at_; }
        iterator &operator++() {
            el_slice key, value;
            const int code = back_ ? el_iter_prev(iter_, &key, &value)
                                   : el_iter_next(iter_, &key, &value);
            if (detail::check(code) == EL_OK) {
                at_ = {detail::view(key), detail::view(value)};
            } else {
                iter_ = nullptr;
            }
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(const iterator &other) const noexcept { return iter_ == other.iter_; }
        bool operator!=(const iterator &other) const noexcept { return iter_ != other.iter_; }

      private:
        el_iter *iter_ = nullptr;
        bool back_ = false;
        pair at_;
    };

    explicit range(el_iter *iter) : handle_(iter) {}

    // From the last pair to the first.
    range reversed() && {
        back_ = true;
        return std::move(*this);
    }

    iterator begin() & { return {handle_.get(), back_}; }
    iterator begin() && = delete;
    iterator end() const noexcept { return {}; }

    // The first pair from `key` on; nothing if there is none.
    std::optional<pair> seek(std::string_view key) & { return seek_by(el_iter_seek, key); }
    std::optional<pair> seek(std::string_view key) && = delete;
    // The last pair up to `key`.
    std::optional<pair> seek_back(std::string_view key) & { return seek_by(el_iter_seek_back, key); }
    std::optional<pair> seek_back(std::string_view key) && = delete;
    // Puts it back to where it was when it was new: begin() may be called again.
    void rewind() { detail::check(el_iter_rewind(handle_.get())); }

  private:
    template <typename S> std::optional<pair> seek_by(S *seek, std::string_view key) {
        el_slice found, value;
        if (detail::check(seek(handle_.get(), detail::slice(key), &found, &value)) != EL_OK) return std::nullopt;
        return pair{detail::view(found), detail::view(value)};
    }

    detail::handle<el_iter, el_iter_free> handle_;
    bool back_ = false;
};

// What is to become of a key; see `map::update_with`.
class decision {
  public:
    // Leave it as it is.
    static decision keep() { return {EL_KEEP, {}, 0}; }
    // Give it this value; when it expires stays as it is.
    static decision put(std::string value) { return {EL_PUT, std::move(value), 0}; }
    // Give it this value, and let it expire then (0: never).
    static decision put_expiring(std::string value, std::uint64_t unix_ms) {
        return {EL_PUT_EXPIRING, std::move(value), unix_ms};
    }
    // Leave the value, and let it expire then (0: never).
    static decision expire_at(std::uint64_t unix_ms) { return {EL_EXPIRE, {}, unix_ms}; }
    // Remove it.
    static decision remove() { return {EL_REMOVE, {}, 0}; }

    // It must outlive what is made of it.
    el_decision get() const noexcept { return {what_, detail::slice(value_), unix_ms_}; }

  private:
    decision(int what, std::string value, std::uint64_t unix_ms)
        : what_(what), value_(std::move(value)), unix_ms_(unix_ms) {}

    int what_;
    std::string value_;
    std::uint64_t unix_ms_;
};

namespace detail {

// Asks a function what is to become of a key, as C code does: its last answer counts.
template <typename F> class decider {
  public:
    explicit decider(F &see) : see_(see) {}
    static decider &of(void *context) { return *static_cast<decider *>(context); }

    // What was thrown before leaves the key as it is.
    template <typename... A> el_decision ask(A... shown) noexcept {
        try {
            if (!thrown_) {
                answer_ = see_(shown...);
                return answer_->get();
            }
        } catch (...) {
            thrown_ = std::current_exception();
        }
        return {EL_KEEP, {nullptr, 0}, 0};
    }

    // Whether the key was there; throws what was thrown.
    bool end(int code) const {
        if (thrown_) std::rethrow_exception(thrown_);
        return check(code) == EL_OK;
    }

  private:
    F &see_;
    std::optional<decision> answer_;
    std::exception_ptr thrown_;
};

} // namespace detail

// An ordered map of byte strings. Copies are not made; move it, or ask the store for another handle.
class map {
  public:
    explicit map(el_map *map) : handle_(map) {}

    std::optional<std::string> get(std::string_view key) const {
        std::string value;
        const bool is_there = see(key, [&](std::string_view bytes) { value.assign(bytes); });
        return is_there ? std::optional(std::move(value)) : std::nullopt;
    }

    // Shows the value in place, without a copy.
    template <typename F> bool see(std::string_view key, F &&call) const {
        detail::carried<F> carried{call, nullptr};
        auto shown = [](void *context, el_slice value) noexcept {
            static_cast<detail::carried<F> *>(context)->run(detail::view(value));
        };
        const int code = el_get_with(get(), detail::slice(key), shown, &carried);
        carried.rethrow();
        return detail::check(code) == EL_OK;
    }

    bool contains(std::string_view key) const {
        return detail::check(el_contains(get(), detail::slice(key))) == EL_OK;
    }
    void put(std::string_view key, std::string_view value) {
        detail::check(el_put(get(), detail::slice(key), detail::slice(value)));
    }
    void put_expiring(std::string_view key, std::string_view value, std::uint64_t unix_ms) {
        detail::check(el_put_expiring(get(), detail::slice(key), detail::slice(value), unix_ms));
    }
    // Lets a key expire then (0: never); false: it is not there.
    bool expire_at(std::string_view key, std::uint64_t unix_ms) {
        return detail::check(el_expire_at(get(), detail::slice(key), unix_ms)) == EL_OK;
    }
    // A value, and when it expires (0: never), of one moment.
    std::optional<std::pair<std::string, std::uint64_t>> get_expiring(std::string_view key) const {
        std::uint64_t unix_ms = 0;
        auto value = detail::fitted([&](el_buffer room, std::size_t *size) {
            return el_get_expiring(get(), detail::slice(key), room, size, &unix_ms);
        });
        return value ? std::optional(std::pair(*std::move(value), unix_ms)) : std::nullopt;
    }
    // When a key expires (0: never); nothing: it is not there.
    std::optional<std::uint64_t> expiry(std::string_view key) const {
        std::uint64_t unix_ms = 0;
        if (detail::check(el_expiry(get(), detail::slice(key), &unix_ms)) != EL_OK) return std::nullopt;
        return unix_ms;
    }
    // Puts many pairs, each for itself.
    template <typename P> void put_many(const P &pairs) {
        const detail::columns columns(pairs);
        detail::check(el_put_many(get(), columns.all_keys(), columns.all_values()));
    }
    bool insert(std::string_view key, std::string_view value) {
        return detail::check(el_insert(get(), detail::slice(key), detail::slice(value))) == EL_OK;
    }
    bool update(std::string_view key, std::string_view value) {
        return detail::check(el_update(get(), detail::slice(key), detail::slice(value))) == EL_OK;
    }
    bool remove(std::string_view key) {
        return detail::check(el_remove(get(), detail::slice(key))) == EL_OK;
    }
    // Nothing stands for absent, on both sides.
    bool compare_exchange(std::string_view key, std::optional<std::string_view> expected,
                          std::optional<std::string_view> value) {
        const el_slice old = detail::slice(expected.value_or("")), now = detail::slice(value.value_or(""));
        const int code = el_compare_exchange(get(), detail::slice(key), expected ? &old : nullptr,
                                             value ? &now : nullptr);
        return detail::check(code) == EL_OK;
    }
    // Reads, decides and writes a key as one atomic step: `decide` is shown the value, or nothing, and returns a
    // `decision`. It may be called several times, when other threads interfere; its last answer counts. It must not
    // write this key itself, which is refused. If it throws, the key stays as it is. Returns whether the key was there
    // before.
    template <typename F> bool update_with(std::string_view key, F &&decide) {
        auto see = [&](const el_slice *value) { return decide(seen(value)); };
        detail::decider<decltype(see)> decider(see);
        auto shown = [](void *to, const el_slice *value) noexcept { return decltype(decider)::of(to).ask(value); };
        return decider.end(el_update_with(get(), detail::slice(key), shown, &decider));
    }
    // The same, and `decide` is also told when the key expires (0: never, or there is none).
    template <typename F> bool update_expiring_with(std::string_view key, F &&decide) {
        auto see = [&](const el_slice *value, std::uint64_t unix_ms) { return decide(seen(value), unix_ms); };
        detail::decider<decltype(see)> decider(see);
        auto shown = [](void *to, const el_slice *value, std::uint64_t unix_ms) noexcept {
            return decltype(decider)::of(to).ask(value, unix_ms);
        };
        return decider.end(el_update_expiring_with(get(), detail::slice(key), shown, &decider));
    }
    // The same for a function that need not see the value: it is told when the key expires (0: never), or nothing.
    template <typename F> bool update_expiry_with(std::string_view key, F &&decide) {
        auto see = [&](const std::uint64_t *unix_ms) {
            return decide(unix_ms ? std::optional(*unix_ms) : std::nullopt);
        };
        detail::decider<decltype(see)> decider(see);
        auto shown = [](void *to, const std::uint64_t *unix_ms) noexcept {
            return decltype(decider)::of(to).ask(unix_ms);
        };
        return decider.end(el_update_expiry_with(get(), detail::slice(key), shown, &decider));
    }
    // Adds to the integer that a key has, in decimal digits, as one atomic step; returns the value before. Nothing: the
    // value is no integer, or the sum is too large.
    std::optional<std::int64_t> fetch_add(std::string_view key, std::int64_t amount) {
        std::int64_t before = 0;
        if (detail::check(el_fetch_add(get(), detail::slice(key), amount, &before)) != EL_OK) return std::nullopt;
        return before;
    }
    // Removes a key, and returns the value that it had.
    std::optional<std::string> take(std::string_view key) {
        detail::given value;
        const int code = el_take(get(), detail::slice(key), &value.data, &value.size);
        return detail::check(code) == EL_OK ? std::optional(value.text()) : std::nullopt;
    }
    // Removes the pair with the lowest key, or the highest, and returns it.
    std::optional<std::pair<std::string, std::string>> pop_first() { return pop(false); }
    std::optional<std::pair<std::string, std::string>> pop_last() { return pop(true); }
    std::uint64_t size() const {
        std::uint64_t count = 0;
        detail::check(el_count(get(), &count));
        return count;
    }
    void clear() { detail::check(el_clear(get())); }

    range all() const { return open(nullptr); }
    // The keys from `from`, included, to `to`, excluded.
    range between(std::string_view from, std::string_view to) const {
        const el_range bounds = el_between(detail::slice(from), detail::slice(to));
        return open(&bounds);
    }
    // The keys of any range: `el_bound_at` makes its ends.
    range within(const el_range &bounds) const { return open(&bounds); }
    range prefix(std::string_view prefix) const {
        el_iter *iter = nullptr;
        detail::check(el_iter_prefix(get(), detail::slice(prefix), &iter));
        return range(iter);
    }

    // Shows the pairs from `from`, included, to `to`, excluded, or all, in place. `call(key, value)` may return whether
    // to go on, and must be quick. Returns how many pairs were shown.
    template <typename F>
    std::uint64_t scan_between(std::string_view from, std::string_view to, F &&call, bool descending = false) const {
        const el_range bounds = el_between(detail::slice(from), detail::slice(to));
        return scan_in(&bounds, call, descending);
    }
    template <typename F> std::uint64_t scan(F &&call, bool descending = false) const {
        return scan_in(nullptr, call, descending);
    }
    template <typename F>
    std::uint64_t scan_within(const el_range &bounds, F &&call, bool descending = false) const {
        return scan_in(&bounds, call, descending);
    }

    // Looks for keys that lie one after another, each of `key_size` bytes. Their values, of `value_size` bytes each, come
    // to lie one after another in `values`, and in `found` is 1 for a key that is there; both are made as large as is
    // needed. Returns how many were found. A value of another size is an error.
    std::size_t get_columns(std::string_view keys, std::size_t key_size, std::string &values,
                            std::size_t value_size, std::vector<unsigned char> &found) const {
        const std::size_t rows = key_size ? keys.size() / key_size : 0;
        std::size_t count = 0;
        found.resize(rows);
        values.resize(rows * value_size);
        detail::check(el_get_columns(get(), detail::slice(keys), key_size, el_room(values.data(), values.size()),
                                     value_size, el_room(found.data(), found.size()), &count));
        return count;
    }
    // Puts many pairs, each for itself: keys and values lie one after another.
    void put_columns(std::string_view keys, std::size_t key_size, std::string_view values, std::size_t value_size) {
        detail::check(el_put_columns(get(), detail::slice(keys), key_size, detail::slice(values), value_size));
    }
    // Numbers about the map.
    el_map_statistics numbers() const {
        el_map_statistics numbers{};
        detail::check(el_map_numbers(get(), el_room(&numbers, sizeof numbers), nullptr));
        return numbers;
    }

    // Brings what is known of many keys into the cache, for writes of them that follow.
    void prefetch(const std::vector<std::string_view> &keys) const {
        const std::vector<el_slice> slices = detail::slices(keys);
        detail::check(el_prefetch(get(), el_slices{slices.data(), slices.size()}));
    }
    // Calls `call(index, optional<string_view>)` for each key.
    template <typename F> void get_many(const std::vector<std::string_view> &keys, F &&call) const {
        detail::many(keys, call, [this](el_slices all, el_found_fn shown, void *context) {
            return el_get_many(get(), all, shown, context);
        });
    }

    el_map *get() const noexcept { return handle_.get(); }

  private:
    static std::optional<std::string_view> seen(const el_slice *value) {
        return value ? std::optional(detail::view(*value)) : std::nullopt;
    }
    std::optional<std::pair<std::string, std::string>> pop(bool highest) {
        detail::given key, value;
        const int code = el_pop(get(), highest, &key.data, &key.size, &value.data, &value.size);
        if (detail::check(code) != EL_OK) return std::nullopt;
        return std::pair(key.text(), value.text());
    }
    template <typename F> std::uint64_t scan_in(const el_range *bounds, F &call, bool descending) const {
        bool is_over = false;
        auto shown = [&](std::string_view key, std::string_view value) {
            if constexpr (std::is_void_v<std::invoke_result_t<F &, std::string_view, std::string_view>>) {
                call(key, value);
            } else {
                is_over = !call(key, value);
            }
        };
        struct context {
            detail::carried<decltype(shown)> carried;
            bool &is_over;
        } context{{shown, nullptr}, is_over};
        auto see = [](void *to, el_slice key, el_slice value) noexcept -> int {
            auto &context = *static_cast<struct context *>(to);
            return !context.carried.run(detail::view(key), detail::view(value)) || context.is_over;
        };
        std::uint64_t count = 0;
        const int code = el_scan(get(), bounds, descending, see, &context, &count);
        context.carried.rethrow();
        detail::check(code);
        return count;
    }
    range open(const el_range *bounds) const {
        el_iter *iter = nullptr;
        detail::check(el_iter_new(get(), bounds, &iter));
        return range(iter);
    }

    detail::handle<el_map, el_map_free> handle_;
};

// Tells whether a key was written since it was made.
class watch {
  public:
    watch(const map &map, std::string_view key) {
        el_watch *made = nullptr;
        detail::check(el_watch_new(map.get(), detail::slice(key), &made));
        handle_.reset(made);
    }

    // A write at the same time may be missed: what must not miss it is `batch::expect_unwritten`.
    bool is_broken() const {
        bool broken = false;
        detail::check(el_watch_is_broken(get(), &broken));
        return broken;
    }

    el_watch *get() const noexcept { return handle_.get(); }

  private:
    detail::handle<el_watch, el_watch_free> handle_;
};

// Changes, and conditions on which they depend, to be done as one.
class batch {
  public:
    batch() {
        el_batch *made = nullptr;
        detail::check(el_batch_new(&made));
        handle_.reset(made);
    }

    batch &put(const map &map, std::string_view key, std::string_view value) {
        detail::check(el_batch_put(get(), map.get(), detail::slice(key), detail::slice(value)));
        return *this;
    }
    batch &remove(const map &map, std::string_view key) {
        detail::check(el_batch_remove(get(), map.get(), detail::slice(key)));
        return *this;
    }
    batch &put_expiring(const map &map, std::string_view key, std::string_view value, std::uint64_t unix_ms) {
        detail::check(el_batch_put_expiring(get(), map.get(), detail::slice(key), detail::slice(value), unix_ms));
        return *this;
    }
    batch &expire_at(const map &map, std::string_view key, std::uint64_t unix_ms) {
        detail::check(el_batch_expire_at(get(), map.get(), detail::slice(key), unix_ms));
        return *this;
    }
    // Nothing: the key must be absent.
    batch &expect(const map &map, std::string_view key, std::optional<std::string_view> value) {
        const el_slice bytes = detail::slice(value.value_or(""));
        detail::check(el_batch_expect(get(), map.get(), detail::slice(key), value ? &bytes : nullptr));
        return *this;
    }

    // The value, and when it expires (0: never).
    batch &expect_expiring(const map &map, std::string_view key, std::string_view value, std::uint64_t unix_ms) {
        detail::check(el_batch_expect_expiring(get(), map.get(), detail::slice(key), detail::slice(value), unix_ms));
        return *this;
    }
    // No batch was rolled back since `store::rollback_count`.
    batch &expect_no_rollback(std::uint64_t rollback_count) {
        detail::check(el_batch_expect_no_rollback(get(), rollback_count));
        return *this;
    }
    // The key of a watch must not have been written since.
    batch &expect_unwritten(const watch &watch) {
        detail::check(el_batch_expect_unwritten(get(), watch.get()));
        return *this;
    }

    // The number of changes.
    std::size_t size() const {
        std::size_t count = 0;
        detail::check(el_batch_count(get(), &count));
        return count;
    }
    // Takes everything out of it.
    void clear() { detail::check(el_batch_clear(get())); }

    el_batch *get() const noexcept { return handle_.get(); }

  private:
    detail::handle<el_batch, el_batch_free> handle_;
};

// All maps of a store as they were at one moment.
class view {
  public:
    explicit view(el_view *view) : handle_(view) {}

    range all(const map &map) const { return open(map, nullptr); }
    // The keys from `from`, included, to `to`, excluded.
    range between(const map &map, std::string_view from, std::string_view to) const {
        const el_range bounds = el_between(detail::slice(from), detail::slice(to));
        return open(map, &bounds);
    }
    range within(const map &map, const el_range &bounds) const { return open(map, &bounds); }
    range prefix(const map &map, std::string_view prefix) const {
        std::string end;
        const el_range bounds = detail::prefixed(prefix, end);
        return open(map, &bounds);
    }

    std::optional<std::string> get(const map &map, std::string_view key) const {
        return detail::fitted([&](el_buffer room, std::size_t *size) {
            return el_view_get(handle_.get(), map.get(), detail::slice(key), room, size);
        });
    }

    // As `map::get_many`.
    template <typename F>
    void get_many(const map &map, const std::vector<std::string_view> &keys, F &&call) const {
        detail::many(keys, call, [this, &map](el_slices all, el_found_fn shown, void *context) {
            return el_view_get_many(handle_.get(), map.get(), all, shown, context);
        });
    }

  private:
    range open(const map &map, const el_range *bounds) const {
        el_iter *iter = nullptr;
        detail::check(el_iter_view(handle_.get(), map.get(), bounds, &iter));
        return range(iter);
    }

    detail::handle<el_view, el_view_free> handle_;
};

// An open store: maps by name in one pool file.
class store {
  public:
    explicit store(const std::string &path, const options &options = {}) {
        detail::check_library();
        el_store *made = nullptr;
        detail::check(el_store_open(detail::text(path), options.made(), &made));
        handle_.reset(made);
    }

    // The default map, or the one of this name, which is made if it is missing.
    everleaf::map map() const { return open(nullptr); }
    everleaf::map map(const std::string &name) const { return open(detail::text(name)); }
    // The map of this name; nothing: there is none.
    std::optional<everleaf::map> existing_map(const std::string &name) const {
        el_map *found = nullptr;
        const int code = detail::check(el_store_map(handle_.get(), detail::text(name), false, &found));
        return code == EL_OK ? std::optional(everleaf::map(found)) : std::nullopt;
    }
    // A new map of this name, of pairs whose keys ascend: several times as fast as putting them.
    template <typename P> everleaf::map load_map(const std::string &name, const P &pairs) {
        const detail::columns columns(pairs);
        el_map *made = nullptr;
        detail::check(el_store_load_map(handle_.get(), detail::text(name), columns.all_keys(),
                                        columns.all_values(), &made));
        return everleaf::map(made);
    }
    std::vector<std::string> map_names() const {
        detail::texts names;
        detail::check(el_store_map_names(handle_.get(), detail::texts::keep, &names));
        return std::move(names).all();
    }
    bool drop_map(const std::string &name) {
        return detail::check(el_store_drop_map(handle_.get(), detail::text(name))) == EL_OK;
    }

    // Does all of a batch or nothing. False: a condition did not hold.
    bool write(const batch &batch) {
        return detail::check(el_store_write(handle_.get(), batch.get(), nullptr)) == EL_OK;
    }
    // The same; the number of the condition that did not hold, counted from 0, is put into `refused`.
    bool write(const batch &batch, std::size_t &refused) {
        return detail::check(el_store_write(handle_.get(), batch.get(), &refused)) == EL_OK;
    }
    everleaf::view view() const {
        el_view *made = nullptr;
        detail::check(el_view_new(handle_.get(), &made));
        return everleaf::view(made);
    }
    // Without a log it makes nothing durable (`el_store_sync`).
    void sync() { detail::check(el_store_sync(handle_.get())); }
    // Copies the store to a new pool; returns the number of pairs. `call(pairs)` is told how many are done.
    std::uint64_t backup(const std::string &path) const { return backup(path, detail::ignore_progress); }
    template <typename F> std::uint64_t backup(const std::string &path, F &&call) const {
        std::uint64_t pairs = 0;
        detail::progress<std::remove_reference_t<F>> progress(call);
        progress.end(el_store_backup(handle_.get(), detail::text(path), decltype(progress)::tell, &progress, &pairs));
        return pairs;
    }
    // Writes a snapshot, which shortens the log; returns the number of pairs.
    std::uint64_t snapshot() {
        std::uint64_t pairs = 0;
        detail::check(el_store_snapshot(handle_.get(), &pairs));
        return pairs;
    }
    // A snapshot if there is a log, otherwise a backup beside the pool; returns the number of pairs.
    std::uint64_t save() {
        std::uint64_t pairs = 0;
        detail::check(el_store_save(handle_.get(), &pairs));
        return pairs;
    }
    // What the pool was made from when it was opened, and what was wrong with that (last the path of the file that was
    // kept, if one was); nothing: it was as it was left.
    std::optional<std::pair<el_rebuilt, std::vector<std::string>>> rebuilt() const {
        el_rebuilt found{};
        detail::texts told;
        const el_buffer room = el_room(&found, sizeof found);
        const int code = detail::check(el_store_rebuilt(handle_.get(), detail::texts::keep, &told, room, nullptr));
        return code == EL_OK ? std::optional(std::pair(found, std::move(told).all())) : std::nullopt;
    }
    // Writes of this thread return before they are durable, until it waits for them.
    void defer_sync() { detail::check(el_store_defer_sync(handle_.get())); }
    void wait_deferred() { detail::check(el_store_wait_deferred(handle_.get())); }
    // What is wrong in the pool; nothing is good.
    std::vector<std::string> check() const {
        detail::texts problems;
        detail::check(el_store_check(handle_.get(), detail::texts::keep, &problems, nullptr));
        return std::move(problems).all();
    }
    el_statistics statistics() const {
        el_statistics numbers{};
        const el_buffer room = el_room(&numbers, sizeof numbers);
        detail::check(el_store_statistics(handle_.get(), room, nullptr));
        return numbers;
    }
    // Returns the disk space of what is free to the file system; how many bytes.
    std::uint64_t return_space() {
        std::uint64_t bytes = 0;
        detail::check(el_store_return_space(handle_.get(), &bytes));
        return bytes;
    }
    // How often a batch was rolled back for want of space since the store was opened.
    std::uint64_t rollback_count() const {
        std::uint64_t count = 0;
        detail::check(el_store_rollback_count(handle_.get(), &count));
        return count;
    }
    // Whether the log has failed, so that nothing can be written any more.
    bool has_log_failed() const { return asked(el_store_has_log_failed); }
    // Whether the file of the pool is gone, so that nothing can be written any more; what there is can be saved.
    bool is_pool_gone() const { return asked(el_store_is_pool_gone); }
    bool is_read_only() const { return asked(el_store_is_read_only); }
    // The files of the log that were found damaged, or belong to what a log has lost. Keep `damaged-log-..` until what
    // was acknowledged behind the damage is not missed: it may be nowhere else. Nothing needs the others.
    std::vector<std::string> put_aside_files() const {
        detail::texts paths;
        detail::check(el_store_put_aside_files(handle_.get(), detail::texts::keep, &paths, nullptr));
        return std::move(paths).all();
    }
    // Throws EL_STILL_OPEN while a map, or anything else of the store, is there: the store is closed all the same, and
    // the last of them closes the pool.
    void close() { detail::check(el_store_close(handle_.get())); }

    el_store *get() const noexcept { return handle_.get(); }

  private:
    bool asked(int (*ask)(const el_store *, bool *)) const {
        bool answer = false;
        detail::check(ask(handle_.get(), &answer));
        return answer;
    }
    everleaf::map open(const char *name) const {
        el_map *made = nullptr;
        detail::check(el_store_map(handle_.get(), name, true, &made));
        return everleaf::map(made);
    }

    detail::handle<el_store, el_store_free> handle_;
};

// Makes a pool, where nothing may be yet, of a backup; returns the number of pairs. `call(pairs)` is told how many are
// done.
template <typename F> std::uint64_t restore(const std::string &from, const std::string &to, F &&call) {
    detail::check_library();
    std::uint64_t pairs = 0;
    detail::progress<std::remove_reference_t<F>> progress(call);
    progress.end(el_restore(detail::text(from), detail::text(to), decltype(progress)::tell, &progress, &pairs));
    return pairs;
}
inline std::uint64_t restore(const std::string &from, const std::string &to) {
    return restore(from, to, detail::ignore_progress);
}

// Writes a pool that nobody has open anew, as small as it can be; returns the bytes of the new file. `call(pairs)` is told
// how many pairs are done.
template <typename F> std::uint64_t compact(const std::string &path, const options &options, F &&call) {
    std::uint64_t bytes = 0;
    detail::progress<std::remove_reference_t<F>> progress(call);
    progress.end(el_compact(detail::text(path), options.made(), decltype(progress)::tell, &progress, &bytes));
    return bytes;
}
inline std::uint64_t compact(const std::string &path, const options &options = {}) {
    return compact(path, options, detail::ignore_progress);
}

// Lets a pool have everything that this version can do, after which older versions refuse it; returns what was new.
inline std::vector<std::string> upgrade(const std::string &path, const options &options = {}) {
    detail::texts news;
    detail::check(el_upgrade(detail::text(path), options.made(), detail::texts::keep, &news));
    return std::move(news).all();
}

// Writes what can be proven of a damaged pool to a new one; returns what was kept, and a sentence for each loss.
inline std::pair<el_repaired, std::vector<std::string>> repair(const std::string &from, const std::string &to) {
    detail::check_library();
    el_repaired found{};
    detail::texts told;
    const el_buffer room = el_room(&found, sizeof found);
    detail::check(el_repair(detail::text(from), detail::text(to), detail::texts::keep, &told, room, nullptr));
    return {found, std::move(told).all()};
}

} // namespace everleaf
