/* simba for C++17: the four doors of simba.h with owning handles, std::chrono and lambdas. Header only; link libsimba.
 *
 *   auto client = simba::client::open("redis://db1").value();
 *   simba::lock_guard guard(client, "orders");       // waits; throws if it cannot be had
 *   write(guard.token(), …);
 *
 * Errors. A function that can fail returns a simba::result, which has either a value or a simba::error: test it, or call
 * value(), which throws simba::failure. Functions that cannot return a result throw as well: the constructors of
 * lock_guard, and lock() and its siblings, which the standard's own guards call. With -fno-exceptions these functions do
 * not exist, and value() of an error ends the program.
 *
 * Callbacks are any callable. An exception that leaves a callback ends the program by std::terminate, as it does in a
 * std::thread: it must not pass through the library, which is written in C.
 *
 * Lifetimes. Handles can be moved but not copied. The destructor of a handle stops it and waits until its callbacks are
 * over. Inside its own callback it cannot wait; then its callables live on until the last of them has returned. You may
 * destroy a client before its handles: they answer SIMBA_ECLOSED from then on. Do not destroy a client inside a callback.
 *
 * A …_ref is a handle that another object owns; callbacks receive one. simba.h describes each function in detail, at the
 * function of the same name. */
#ifndef SIMBA_HPP
#define SIMBA_HPP

#include <simba.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define SIMBA_HPP_THROWS 1
#endif

namespace simba
{

using milliseconds = std::chrono::milliseconds;

/* --- errors --------------------------------------------------------------------------------------- */

class [[nodiscard]] error
{
  public:
    error() noexcept : c_{} {}
    explicit error(const simba_error &c) noexcept : c_(c) {}
    /* For functions that return only a code. */
    explicit error(int code) noexcept : c_{}
    {
        c_.code = code;
        std::strncpy(c_.text, simba_error_text(code), sizeof c_.text - 1);
    }

    int code() const noexcept { return c_.code; }
    const char *name() const noexcept { return simba_error_name(c_.code); }
    /* A sentence that names the culprit. */
    const char *text() const noexcept { return c_.text; }

  private:
    simba_error c_;
};

#ifdef SIMBA_HPP_THROWS
class failure : public std::runtime_error
{
  public:
    explicit failure(const simba::error &e) : std::runtime_error(e.text()), error_(e) {}
    int code() const noexcept { return error_.code(); }
    const simba::error &error() const noexcept { return error_; }

  private:
    simba::error error_;
};
#endif

namespace detail
{
[[noreturn]] inline void raise(const error &e)
{
#ifdef SIMBA_HPP_THROWS
    throw failure(e);
#else
    (void)e;
    std::terminate();
#endif
}
} // namespace detail

/* A value of T, or the error why there is none. */
template <typename T = std::monostate> class [[nodiscard]] result
{
  public:
    result(T value) noexcept(std::is_nothrow_move_constructible_v<T>) : held_(std::in_place_index<0>, std::move(value))
    {
    }
    result(simba::error e) noexcept : held_(std::in_place_index<1>, e) {}

    explicit operator bool() const noexcept { return held_.index() == 0; }
    /* Only if it failed. */
    const simba::error &error() const noexcept { return *std::get_if<1>(&held_); }
    int code() const noexcept { return *this ? 0 : error().code(); }

    /* Throws simba::failure if there is none. */
    T &value() & { return check(), *std::get_if<0>(&held_); }
    T &&value() && { return check(), std::move(*std::get_if<0>(&held_)); }
    /* Only if it has a value. */
    T &operator*() noexcept { return *std::get_if<0>(&held_); }
    T *operator->() noexcept { return std::get_if<0>(&held_); }

  private:
    void check() const
    {
        if (!*this)
            detail::raise(error());
    }
    std::variant<T, simba::error> held_;
};

/* Success without a value. */
using status_result = result<>;

namespace detail
{
inline status_result of(int rc, const simba_error &err) noexcept
{
    if (rc < 0)
        return error(err);
    return std::monostate{};
}
inline status_result of(int rc) noexcept
{
    if (rc < 0)
        return error(rc);
    return std::monostate{};
}

/* Whole milliseconds, rounded up: a wait of 100 us must not become 0. */
template <typename Rep, typename Period> std::int64_t count(std::chrono::duration<Rep, Period> d)
{
    using std::chrono::duration;
    /* In floating point first: hours in a narrow type, or very long durations, would overflow. */
    const double ms = duration<double, std::milli>(d).count();
    if (!(ms < static_cast<double>(SIMBA_LEASE_MAX_MS)))
        return SIMBA_LEASE_MAX_MS;
    if (ms < -static_cast<double>(SIMBA_LEASE_MAX_MS))
        return -SIMBA_LEASE_MAX_MS;
    return std::chrono::ceil<milliseconds>(d).count();
}

template <auto Free> struct deleter {
    template <typename T> void operator()(T *handle) const noexcept { (void)Free(handle); }
};
} // namespace detail

/* --- values --------------------------------------------------------------------------------------- */

/* Who owns a mutex, see simba_owner. */
class owner
{
  public:
    owner() noexcept : c_{} {}
    explicit owner(const simba_owner &c) noexcept : c_(c) {}

    bool none() const noexcept { return simba_owner_is_none(&c_); }
    std::string_view id() const noexcept { return c_.id; }
    std::uint64_t token() const noexcept { return c_.token; }
    const simba_owner &c() const noexcept { return c_; }

  private:
    simba_owner c_;
};

struct change {
    owner before;
    owner after;
};

/* A later library may have more values. */
enum class reason {
    none = SIMBA_REASON_NONE,
    stopped = SIMBA_REASON_STOPPED,
    superseded = SIMBA_REASON_SUPERSEDED,
    expired = SIMBA_REASON_EXPIRED,
    session_lost = SIMBA_REASON_SESSION_LOST,
    revoked = SIMBA_REASON_REVOKED,
    hold_limit = SIMBA_REASON_HOLD_LIMIT,
};
inline const char *to_string(reason r) noexcept
{
    return simba_reason_name(static_cast<simba_reason>(r));
}

enum class status {
    initial = SIMBA_STATUS_INITIAL,
    starting = SIMBA_STATUS_STARTING,
    running = SIMBA_STATUS_RUNNING,
    stopping = SIMBA_STATUS_STOPPING,
};
inline const char *to_string(status s) noexcept
{
    return simba_status_name(static_cast<simba_status>(s));
}

/* A member that is not set comes from the level above, see simba_timing. */
struct timing {
    std::optional<milliseconds> ttl, transition, initial_delay, stop_margin, hold_limit, jitter_min, jitter_max;

    simba_timing c() const noexcept
    {
        simba_timing t = SIMBA_TIMING_INHERIT;
        const auto put = [](std::int64_t &to, const std::optional<milliseconds> &from) {
            if (from)
                to = from->count();
        };
        put(t.ttl_ms, ttl);
        put(t.transition_ms, transition);
        put(t.initial_delay_ms, initial_delay);
        put(t.stop_margin_ms, stop_margin);
        put(t.hold_limit_ms, hold_limit);
        put(t.jitter_min_ms, jitter_min);
        put(t.jitter_max_ms, jitter_max);
        return t;
    }
};

/* --- client --------------------------------------------------------------------------------------- */

struct client_options {
    simba::timing timing;
    simba_dispatch dispatch = SIMBA_DISPATCH_POOL;
    /* With SIMBA_DISPATCH_EXECUTOR: arrange for the function to be called once, soon, on any thread, but not in here. */
    std::function<void(std::function<void()>)> executor;
    std::optional<unsigned> max_callback_threads;
    std::optional<unsigned> drift_ppm;
    std::optional<milliseconds> op_timeout;
    /* Called from any thread while the library holds locks: return quickly, and call nothing of simba. */
    std::function<void(simba_log_level, std::string_view)> log;
    std::function<void(const simba_log_record &)> log_record; /* instead of `log`: event and fields apart */
    simba_log_level log_level = SIMBA_LOG_WARN;
};

struct listing {
    std::string mutex;
    simba::owner owner;
    std::int64_t now_ms;                 /* the store's time, to compare with the owner's times */
    std::optional<std::int64_t> waiters; /* empty: the store does not know */
    std::string note;                    /* bytes of any value; empty: there is none */
    std::string next; /* the id of the first waiter; empty: nobody waits, or the store does not know */
};

/* The note of a mutex. */
struct note {
    std::string bytes;          /* of any value; empty: there is none */
    std::uint64_t token;        /* of the grant under which it was written */
    std::int64_t written_at_ms; /* on the store's wall clock */
    std::int64_t now_ms;        /* the same clock when it was read */
};

namespace detail
{
/* `read` is simba_client_note or a sibling, bound to all but the last two arguments. */
template <typename Read> result<note> read_note(Read read)
{
    simba_note c = SIMBA_NOTE_INIT;
    simba_error err{};
    if (read(&err, &c) < 0)
        return error(err);
    return note{std::string(c.bytes, c.length), c.token, c.written_at_ms, c.now_ms};
}
} // namespace detail

class client
{
  public:
    /* `url` empty: $SIMBA_URL; without that, this user's embedded store. */
    static result<client> open(const std::string &url = {}, client_options options = {})
    {
        auto kept = std::make_unique<client_options>(std::move(options));
        simba_client_options c = SIMBA_CLIENT_OPTIONS_INIT;
        c.timing = kept->timing.c();
        c.dispatch = kept->dispatch;
        if (kept->executor) {
            c.executor = execute;
            c.executor_user = kept.get();
        }
        if (kept->log)
            c.log = log;
        if (kept->log_record)
            c.log_record = log_record;
        c.log_user = kept.get();
        c.log_level = kept->log_level;
        if (kept->max_callback_threads)
            c.max_callback_threads = *kept->max_callback_threads;
        if (kept->drift_ppm)
            c.drift_ppm = *kept->drift_ppm;
        if (kept->op_timeout)
            c.op_timeout_ms = kept->op_timeout->count();
        simba_error err{};
        simba_client *handle = nullptr;
        if (simba_client_open(url.empty() ? nullptr : url.c_str(), &c, &err, &handle) < 0)
            return error(err);
        return client(std::move(kept), handle);
    }

    client(client &&) noexcept = default;
    client &operator=(client &&) noexcept = default;

    simba_client *c() const noexcept { return handle_.get(); }
    std::string_view url() const noexcept { return simba_client_url(c()); }

    /* With SIMBA_DISPATCH_FD. */
    result<int> fd() const noexcept { return counted(simba_client_fd(c())); }
    result<int> dispatch() const noexcept { return counted(simba_client_dispatch(c())); }

    result<std::vector<listing>> list(const std::string &pattern = {}) const
    {
        std::vector<listing> rows;
        simba_error err{};
        const int rc = simba_client_list(c(), pattern.empty() ? nullptr : pattern.c_str(), row, &rows, &err);
        if (rc < 0)
            return error(err);
        return rows;
    }

    status_result prepare() const noexcept
    {
        simba_error err{};
        return detail::of(simba_client_prepare(c(), &err), err);
    }

    status_result force_release(const std::string &mutex) const noexcept
    {
        simba_error err{};
        return detail::of(simba_client_force_release(c(), mutex.c_str(), &err), err);
    }

    result<simba::note> note(const std::string &mutex) const
    {
        return detail::read_note(
            [&](simba_error *err, simba_note *ret) { return simba_client_note(c(), mutex.c_str(), err, ret); });
    }

    /* Remove a mutex that nobody owns, with its note. */
    status_result forget(const std::string &mutex) const noexcept
    {
        simba_error err{};
        return detail::of(simba_client_forget(c(), mutex.c_str(), &err), err);
    }

    simba_stats stats() const noexcept
    {
        simba_stats stats = SIMBA_STATS_INIT;
        (void)simba_client_stats(c(), &stats);
        return stats;
    }

  private:
    struct close {
        void operator()(simba_client *handle) const noexcept
        {
            if (simba_client_close(handle) == SIMBA_ESTATE)
                std::terminate(); /* closing inside a callback cannot wait for that callback to end */
        }
    };

    client(std::unique_ptr<client_options> options, simba_client *handle) noexcept
        : options_(std::move(options)), handle_(handle)
    {
    }

    static result<int> counted(int rc) noexcept
    {
        if (rc < 0)
            return error(rc);
        return rc;
    }
    static void execute(void *user, void (*run)(void *), void *arg) noexcept
    {
        static_cast<client_options *>(user)->executor([run, arg] { run(arg); });
    }
    static void log(void *user, simba_log_level level, const char *text) noexcept
    {
        static_cast<client_options *>(user)->log(level, text);
    }
    static void log_record(void *user, const simba_log_record *record) noexcept
    {
        static_cast<client_options *>(user)->log_record(*record);
    }
    static void row(const simba_listing *row, void *user) noexcept
    {
        static_cast<std::vector<listing> *>(user)->push_back(
            {row->mutex, owner(*row->owner), row->now_ms,
             row->waiters < 0 ? std::nullopt : std::optional<std::int64_t>(row->waiters),
             std::string(static_cast<const char *>(row->note), row->note_length), row->next ? row->next : ""});
    }

    std::unique_ptr<client_options> options_; /* outlives the handle: declared first, so destroyed last */
    std::unique_ptr<simba_client, close> handle_;
};

/* --- contender ------------------------------------------------------------------------------------ */

class contender_ref
{
  public:
    explicit contender_ref(simba_contender *handle) noexcept : handle_(handle) {}

    simba_contender *c() const noexcept { return handle_; }
    std::string_view mutex() const noexcept { return simba_contender_mutex(handle_); }
    std::string_view id() const noexcept { return simba_contender_id(handle_); }
    simba::status status() const noexcept { return static_cast<simba::status>(simba_contender_status(handle_)); }
    /* May I still act, and for how long? Lock-free. */
    bool is_owner() const noexcept { return simba_contender_is_owner(handle_); }
    milliseconds held_for() const noexcept { return milliseconds(simba_contender_held_for_ms(handle_)); }
    std::uint64_t token() const noexcept { return simba_contender_token(handle_); }
    simba::owner owner() const noexcept
    {
        simba_owner c{};
        (void)simba_contender_owner(handle_, &c);
        return simba::owner(c);
    }
    status_result stop() const noexcept { return detail::of(simba_contender_stop(handle_)); }
    /* Write the note of the mutex as its owner, or read it. SIMBA_ELOST: leadership has ended; nothing was written. */
    status_result set_note(std::string_view bytes) const noexcept
    {
        simba_error err{};
        return detail::of(simba_contender_note_set(handle_, bytes.data(), bytes.size(), &err), err);
    }
    result<simba::note> note() const
    {
        return detail::read_note(
            [&](simba_error *err, simba_note *ret) { return simba_contender_note(handle_, err, ret); });
    }

  protected:
    simba_contender *handle_;
};

struct contender_options {
    std::string id; /* empty: the library makes one */
    simba::timing timing;
    std::function<void(contender_ref, const change &)> on_acquired;
    std::function<void(contender_ref, const change &, reason)> on_released;
    std::function<void(contender_ref, const change &)> on_changed;
    std::function<void(contender_ref)> on_noted; /* the note may have changed */
};

namespace detail
{
inline change changed(const simba_state *state) noexcept
{
    return {owner(state->before), owner(state->after)};
}

/* A handle that owns its callables until the library says that none of them runs or will run any more. */
template <typename Options> void forget(void *user) noexcept
{
    delete static_cast<Options *>(user);
}
} // namespace detail

class contender : public contender_ref
{
  public:
    static result<contender> make(const client &on, const std::string &mutex, contender_options options = {})
    {
        auto kept = std::make_unique<contender_options>(std::move(options));
        simba_contender_options c = SIMBA_CONTENDER_OPTIONS_INIT;
        c.id = kept->id.empty() ? nullptr : kept->id.c_str();
        c.timing = kept->timing.c();
        if (kept->on_acquired)
            c.on_acquired = acquired;
        if (kept->on_released)
            c.on_released = released;
        if (kept->on_changed)
            c.on_changed = changed;
        if (kept->on_noted)
            c.on_noted = noted;
        c.user = kept.get();
        c.on_freed = detail::forget<contender_options>;
        simba_error err{};
        simba_contender *handle = nullptr;
        if (simba_contender_new(on.c(), mutex.c_str(), &c, &err, &handle) < 0)
            return error(err);
        (void)kept.release();
        return contender(handle);
    }

    contender(contender &&other) noexcept : contender_ref(std::exchange(other.handle_, nullptr)) {}
    contender &operator=(contender &&other) noexcept
    {
        contender(std::move(other)).swap(*this);
        return *this;
    }
    ~contender() { simba_contender_free(handle_); }
    /* End it without waiting, for a loop that must not block: on_released and the rest follow. */
    void discard() noexcept { simba_contender_discard(std::exchange(handle_, nullptr)); }
    void swap(contender &other) noexcept { std::swap(handle_, other.handle_); }

    status_result start() const noexcept { return detail::of(simba_contender_start(handle_)); }

  private:
    explicit contender(simba_contender *handle) noexcept : contender_ref(handle) {}

    static contender_options &of(void *user) noexcept { return *static_cast<contender_options *>(user); }
    static void acquired(simba_contender *handle, const simba_state *state, void *user) noexcept
    {
        of(user).on_acquired(contender_ref(handle), detail::changed(state));
    }
    static void released(simba_contender *handle, const simba_state *state, simba_reason why, void *user) noexcept
    {
        of(user).on_released(contender_ref(handle), detail::changed(state), static_cast<reason>(why));
    }
    static void changed(simba_contender *handle, const simba_state *state, void *user) noexcept
    {
        of(user).on_changed(contender_ref(handle), detail::changed(state));
    }
    static void noted(simba_contender *handle, void *user) noexcept { of(user).on_noted(contender_ref(handle)); }
};

/* --- locker --------------------------------------------------------------------------------------- */

struct locker_options {
    std::string id;
    simba::timing timing;
    milliseconds once_per{0}; /* see simba_locker_options */
    milliseconds min_hold{0};
    bool once_retry_failed = false;
    std::int64_t slots = 0;
};

/* A blocking lock, and a TimedLockable: std::unique_lock and std::scoped_lock take it. It is not re-entrant. */
class locker
{
  public:
    static result<locker> make(const client &on, const std::string &mutex, const locker_options &options = {})
    {
        simba_locker_options c = SIMBA_LOCKER_OPTIONS_INIT;
        c.id = options.id.empty() ? nullptr : options.id.c_str();
        c.timing = options.timing.c();
        c.once_per_ms = options.once_per.count();
        c.min_hold_ms = options.min_hold.count();
        c.once_retry_failed = options.once_retry_failed;
        c.slots = options.slots;
        simba_error err{};
        simba_locker *handle = nullptr;
        if (simba_locker_new(on.c(), mutex.c_str(), &c, &err, &handle) < 0)
            return error(err);
        return locker(handle);
    }

    simba_locker *c() const noexcept { return handle_.get(); }

    /* Wait without a limit, or for this time; 0: try once. The text of SIMBA_ETIMEDOUT names the owner. */
    status_result acquire() noexcept { return acquire_ms(-1); }
    template <typename Rep, typename Period> status_result acquire(std::chrono::duration<Rep, Period> timeout) noexcept
    {
        const std::int64_t ms = detail::count(timeout);
        return acquire_ms(ms > 0 ? ms : 0);
    }
    /* With once_per, before release: record how the run has ended; 0 is success. */
    status_result once_end(int result = 0) noexcept
    {
        simba_error err{};
        return detail::of(simba_locker_once_end(c(), result, &err), err);
    }
    /* SIMBA_ELOST: leadership had ended before, and ended_by() says why. */
    status_result release() noexcept
    {
        simba_error err{};
        return detail::of(simba_locker_release(c(), &err), err);
    }
    /* Make an acquire that waits in another thread return SIMBA_ECANCELED. */
    void cancel() const noexcept { (void)simba_locker_cancel(c()); }

    simba::reason ended_by() const noexcept { return static_cast<simba::reason>(simba_locker_reason(c())); }
    bool held() const noexcept { return held_for() > milliseconds::zero(); }
    milliseconds held_for() const noexcept { return milliseconds(simba_locker_held_for_ms(c())); }
    int slot() const noexcept { return simba_locker_slot(c()); }
    std::uint64_t token() const noexcept { return simba_locker_token(c()); }
    std::string_view id() const noexcept { return simba_locker_id(c()); }
    simba::owner owner() const noexcept
    {
        simba_owner o{};
        (void)simba_locker_owner(c(), &o);
        return simba::owner(o);
    }
    /* Write the note of the mutex as its owner, or read it. SIMBA_ELOST: leadership had ended; nothing was written. */
    status_result set_note(std::string_view bytes) noexcept
    {
        simba_error err{};
        return detail::of(simba_locker_note_set(c(), bytes.data(), bytes.size(), &err), err);
    }
    result<simba::note> note() const
    {
        return detail::read_note([&](simba_error *err, simba_note *ret) { return simba_locker_note(c(), err, ret); });
    }

#ifdef SIMBA_HPP_THROWS
    void lock()
    {
        (void)acquire().value();
    }
    bool try_lock()
    {
        return tried(acquire_ms(0));
    }
    template <typename Rep, typename Period> bool try_lock_for(std::chrono::duration<Rep, Period> timeout)
    {
        return tried(acquire(timeout));
    }
    template <typename Clock, typename Duration> bool try_lock_until(std::chrono::time_point<Clock, Duration> at)
    {
        return try_lock_for(at - Clock::now());
    }
#endif
    /* For the standard's guards, whose destructors cannot report a loss. release() can. */
    void unlock() noexcept
    {
        (void)simba_locker_release(c(), nullptr);
    }

  private:
    explicit locker(simba_locker *handle) noexcept : handle_(handle)
    {
    }

    status_result acquire_ms(std::int64_t ms) noexcept
    {
        simba_error err{};
        return detail::of(simba_locker_acquire(c(), ms, &err), err);
    }
#ifdef SIMBA_HPP_THROWS
    static bool tried(status_result r)
    {
        if (!r && r.code() != SIMBA_ETIMEDOUT)
            detail::raise(r.error());
        return static_cast<bool>(r);
    }
#endif

    std::unique_ptr<simba_locker, detail::deleter<simba_locker_free>> handle_;
};

/* A mutex that is held for a scope. */
class [[nodiscard]] lock_guard
{
  public:
#ifdef SIMBA_HPP_THROWS
    /* Wait for the mutex, without a limit or for this time; throws simba::failure if that fails. */
    lock_guard(const client &on, const std::string &mutex, const locker_options &options = {})
        : locker_(locker::make(on, mutex, options).value())
    {
        locker_.lock();
    }
    template <typename Rep, typename Period>
    lock_guard(const client &on, const std::string &mutex, std::chrono::duration<Rep, Period> timeout,
               const locker_options &options = {})
        : locker_(locker::make(on, mutex, options).value())
    {
        (void)locker_.acquire(timeout).value();
    }
    /* Throws if the mutex is no longer held. Call it before each step that needs the mutex. */
    void check() const
    {
        if (!held())
            detail::raise(error(SIMBA_ELOST));
    }
#endif
    /* The same, without exceptions. */
    static result<lock_guard> make(const client &on, const std::string &mutex,
                                   std::optional<milliseconds> timeout = std::nullopt,
                                   const locker_options &options = {})
    {
        auto made = locker::make(on, mutex, options);
        if (!made)
            return made.error();
        const auto got = timeout ? made->acquire(*timeout) : made->acquire();
        if (!got)
            return got.error();
        return lock_guard(std::move(*made));
    }

    bool held() const noexcept
    {
        return locker_.held();
    }
    milliseconds held_for() const noexcept
    {
        return locker_.held_for();
    }
    std::uint64_t token() const noexcept
    {
        return locker_.token();
    }
    /* As of a locker. A scope that ends without this call leaves a run that was cut short. */
    status_result once_end(int result = 0) noexcept
    {
        return locker_.once_end(result);
    }
    /* Give the mutex back before the scope ends, and learn whether it was still held. */
    status_result release() noexcept
    {
        return locker_.release();
    }

  private:
    explicit lock_guard(locker &&l) noexcept : locker_(std::move(l))
    {
    }

    locker locker_; /* releases when it is destroyed */
};

/* --- scheduler ------------------------------------------------------------------------------------ */

/* One run of the work. */
class run_ref
{
  public:
    explicit run_ref(simba_run *handle) noexcept : handle_(handle) {}

    bool stopping() const noexcept { return simba_run_stopping(handle_); }
    milliseconds held_for() const noexcept { return milliseconds(simba_run_held_for_ms(handle_)); }
    std::uint64_t token() const noexcept { return simba_run_token(handle_); }
    /* For a remembered schedule, see simba_run_due_at_ms. */
    std::chrono::system_clock::time_point due_at() const noexcept
    {
        return std::chrono::system_clock::time_point(milliseconds(simba_run_due_at_ms(handle_)));
    }
    std::int64_t missed() const noexcept { return simba_run_missed(handle_); }
    bool cut_short() const noexcept { return simba_run_cut_short(handle_); }
    void finish(int result) const noexcept { simba_run_finish(handle_, result); }
    /* True: the run must end. */
    template <typename Rep, typename Period> bool sleep(std::chrono::duration<Rep, Period> d) const noexcept
    {
        return simba_run_sleep(handle_, detail::count(d));
    }
    /* The note of the scheduler's mutex, as for a contender. */
    status_result set_note(std::string_view bytes) const noexcept
    {
        simba_error err{};
        return detail::of(simba_run_note_set(handle_, bytes.data(), bytes.size(), &err), err);
    }
    result<simba::note> note() const
    {
        return detail::read_note([&](simba_error *err, simba_note *ret) { return simba_run_note(handle_, err, ret); });
    }

  private:
    simba_run *handle_;
};

struct scheduler_options {
    std::string id;
    simba::timing timing;
    simba_schedule schedule = SIMBA_SCHEDULE_FIXED_RATE;
    milliseconds initial_delay{0};
    milliseconds period{0};            /* required, except for SIMBA_SCHEDULE_CRON */
    std::function<void(run_ref)> work; /* required */
    std::string cron;                  /* this and the next members: remembered schedules only */
    std::string time_zone;
    simba_catch_up catch_up = SIMBA_CATCH_UP_ONCE;
    std::int64_t catch_up_limit = 0;
    simba_guarantee guarantee = SIMBA_AT_MOST_ONCE;
};

class scheduler
{
  public:
    static result<scheduler> make(const client &on, const std::string &mutex, scheduler_options options)
    {
        auto kept = std::make_unique<scheduler_options>(std::move(options));
        simba_scheduler_options c = SIMBA_SCHEDULER_OPTIONS_INIT;
        c.id = kept->id.empty() ? nullptr : kept->id.c_str();
        c.timing = kept->timing.c();
        c.schedule = kept->schedule;
        c.initial_delay_ms = kept->initial_delay.count();
        c.period_ms = kept->period.count();
        c.cron = kept->cron.empty() ? nullptr : kept->cron.c_str();
        c.time_zone = kept->time_zone.empty() ? nullptr : kept->time_zone.c_str();
        c.catch_up = kept->catch_up;
        c.catch_up_limit = kept->catch_up_limit;
        c.guarantee = kept->guarantee;
        if (kept->work)
            c.work = work;
        c.user = kept.get();
        c.on_freed = detail::forget<scheduler_options>;
        simba_error err{};
        simba_scheduler *handle = nullptr;
        if (simba_scheduler_new(on.c(), mutex.c_str(), &c, &err, &handle) < 0)
            return error(err);
        (void)kept.release();
        return scheduler(handle);
    }

    simba_scheduler *c() const noexcept { return handle_.get(); }
    status_result start() const noexcept { return detail::of(simba_scheduler_start(c())); }
    status_result stop() const noexcept { return detail::of(simba_scheduler_stop(c())); }
    simba::status status() const noexcept { return static_cast<simba::status>(simba_scheduler_status(c())); }
    bool is_leader() const noexcept { return simba_scheduler_is_leader(c()); }

  private:
    explicit scheduler(simba_scheduler *handle) noexcept : handle_(handle) {}

    static void work(simba_run *run, void *user) noexcept
    {
        static_cast<scheduler_options *>(user)->work(run_ref(run));
    }

    std::unique_ptr<simba_scheduler, detail::deleter<simba_scheduler_free>> handle_;
};

/* --- observer ------------------------------------------------------------------------------------- */

struct observer_options {
    std::function<void(const change &)> on_changed; /* required */
    milliseconds poll{1000};
    std::function<void()> on_noted; /* the note may have changed */
};

class observer
{
  public:
    static result<observer> make(const client &on, const std::string &mutex, observer_options options)
    {
        auto kept = std::make_unique<observer_options>(std::move(options));
        simba_observer_options c = SIMBA_OBSERVER_OPTIONS_INIT;
        if (kept->on_changed)
            c.on_changed = changed;
        if (kept->on_noted)
            c.on_noted = noted;
        c.user = kept.get();
        c.poll_ms = kept->poll.count();
        c.on_freed = detail::forget<observer_options>;
        simba_error err{};
        simba_observer *handle = nullptr;
        if (simba_observer_new(on.c(), mutex.c_str(), &c, &err, &handle) < 0)
            return error(err);
        (void)kept.release();
        return observer(handle);
    }

    simba_observer *c() const noexcept { return handle_.get(); }
    status_result start() const noexcept { return detail::of(simba_observer_start(c())); }
    status_result stop() const noexcept { return detail::of(simba_observer_stop(c())); }
    simba::owner owner() const noexcept
    {
        simba_owner o{};
        (void)simba_observer_owner(c(), &o);
        return simba::owner(o);
    }

  private:
    explicit observer(simba_observer *handle) noexcept : handle_(handle) {}

    static void changed(simba_observer *, const simba_state *state, void *user) noexcept
    {
        static_cast<observer_options *>(user)->on_changed(detail::changed(state));
    }
    static void noted(simba_observer *, void *user) noexcept { static_cast<observer_options *>(user)->on_noted(); }

    std::unique_ptr<simba_observer, detail::deleter<simba_observer_free>> handle_;
};

} // namespace simba

#undef SIMBA_HPP_THROWS
#endif
