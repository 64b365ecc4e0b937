/* The doors of simba.hpp, each on the memory store. Built with and without exceptions: what throws is tested in the first. */
#include <simba.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <poll.h>
#include <thread>

using namespace std::chrono_literals;

namespace
{

int cases;
bool failed;

void check(bool good, const char *what, int line)
{
    if (good)
        return;
    failed = true;
    std::fprintf(stderr, "line %d: not so: %s\n", line, what);
}
#define CHECK(condition) check(static_cast<bool>(condition), #condition, __LINE__)

/* What callbacks tell, for a test that waits for it. */
class signal
{
  public:
    void raise()
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        count_++;
        changed_.notify_all();
    }
    bool reached(int count)
    {
        std::unique_lock<std::mutex> guard(mutex_);
        return changed_.wait_for(guard, 30s, [&] { return count_ >= count; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int count_ = 0;
};

simba::client open(simba::client_options options = {})
{
    static int number;
    auto client = simba::client::open("memory://cpp" + std::to_string(number++), std::move(options));
    CHECK(client);
    return std::move(client).value();
}

/* --- errors and values ---------------------------------------------------------------------------- */

void a_bad_url_is_an_error_with_words()
{
    const auto client = simba::client::open("nowhere://");
    CHECK(!client);
    CHECK(client.code() == SIMBA_EURL || client.code() == SIMBA_ENOTBUILT);
    CHECK(std::string_view(client.error().text()).find("nowhere") != std::string_view::npos);
}

void what_is_not_set_is_inherited()
{
    simba::timing timing;
    timing.ttl = 2s;
    const simba_timing c = timing.c();
    CHECK(c.ttl_ms == 2000 && c.transition_ms == SIMBA_INHERIT && c.reserved[3] == SIMBA_INHERIT);
}

void durations_are_rounded_up_and_bounded()
{
    CHECK(simba::detail::count(100us) == 1);
    CHECK(simba::detail::count(1500us) == 2);
    CHECK(simba::detail::count(-1500us) == -1);
    CHECK(simba::detail::count(std::chrono::hours::max()) == SIMBA_LEASE_MAX_MS);
    CHECK(simba::detail::count(std::chrono::hours::min()) == -SIMBA_LEASE_MAX_MS);
}

/* --- locker --------------------------------------------------------------------------------------- */

void two_lockers_exclude_each_other()
{
    auto client = open();
    auto one = simba::locker::make(client, "orders").value();
    auto two = simba::locker::make(client, "orders").value();
    CHECK(one.acquire());
    CHECK(one.held() && one.token() > 0 && one.owner().id() == one.id());
    const auto refused = two.acquire(0ms);
    CHECK(refused.code() == SIMBA_ETIMEDOUT);
    CHECK(std::string_view(refused.error().text()).find(one.id()) != std::string_view::npos);
    const auto before = one.token();
    CHECK(one.ended_by() == simba::reason::none);
    CHECK(one.release());
    CHECK(one.ended_by() == simba::reason::stopped);
    CHECK(one.release().code() == SIMBA_ESTATE);
    CHECK(two.acquire(10s));
    CHECK(two.token() > before);
}

void a_note_goes_from_hand_to_hand()
{
    using namespace std::string_view_literals;
    auto client = open();
    auto one = simba::locker::make(client, "orders").value();
    CHECK(client.note("orders").value().bytes.empty());
    CHECK(one.set_note("early").code() == SIMBA_ESTATE);
    CHECK(one.acquire());
    CHECK(one.set_note("step\0 7"sv));
    const auto token = one.token();
    CHECK(one.release());
    const auto left = one.note().value();
    CHECK(left.bytes == "step\0 7"sv && left.token == token && left.written_at_ms <= left.now_ms);
    signal noted;
    simba::observer_options options;
    options.on_changed = [](const simba::change &) {};
    options.on_noted = [&] { noted.raise(); };
    auto observer = simba::observer::make(client, "orders", std::move(options)).value();
    CHECK(observer.start());
    CHECK(client.list().value().at(0).note == left.bytes);
    CHECK(client.forget("orders"));
    CHECK(client.note("orders").value().bytes.empty());
    CHECK(noted.reached(1));
    CHECK(observer.stop());
    CHECK(client.forget("orders").code() == SIMBA_ENOTFOUND);
}

/* How a run ended decides whether it may begin again within the period. */
void a_failed_run_may_begin_again()
{
    auto client = open();
    simba::locker_options once;
    once.once_per = 1h;
    auto strict = simba::locker::make(client, "orders", once).value();
    once.once_retry_failed = true;
    auto retrying = simba::locker::make(client, "orders", once).value();
    CHECK(strict.once_end().code() == SIMBA_ESTATE);
    CHECK(strict.acquire());
    CHECK(strict.once_end(3));
    CHECK(strict.release());
    CHECK(strict.acquire().code() == SIMBA_ETOOSOON);
    auto guard = simba::lock_guard::make(client, "orders", 10s, once).value();
    CHECK(guard.once_end());
    CHECK(guard.release());
    CHECK(retrying.acquire().code() == SIMBA_ETOOSOON);
    CHECK(client.note("orders").value().bytes.find(" result=0 ") != std::string::npos);
}

void a_moved_locker_still_holds()
{
    auto client = open();
    auto one = simba::locker::make(client, "orders").value();
    CHECK(one.acquire());
    const auto moved = std::move(one);
    CHECK(moved.held());
    CHECK(client.stats().held == 1);
}

void a_guard_gives_back_at_the_end_of_its_scope()
{
    auto client = open();
    {
        auto guard = simba::lock_guard::make(client, "orders", 10s);
        CHECK(guard && guard->held() && guard->token() > 0);
        CHECK(simba::lock_guard::make(client, "orders", 0ms).code() == SIMBA_ETIMEDOUT);
        CHECK(client.list("ord*").value().at(0).mutex == "orders");
    }
    CHECK(client.stats().held == 0);
    CHECK(simba::lock_guard::make(client, "orders", 0ms));
}

void a_revoked_guard_is_told_of_it()
{
    auto client = open();
    auto guard = simba::lock_guard::make(client, "orders").value();
    CHECK(client.force_release("orders"));
    while (guard.held())
        std::this_thread::yield();
    CHECK(guard.release().code() == SIMBA_ELOST);
    CHECK(client.force_release("orders").code() == SIMBA_ENOTFOUND);
}

void a_waiting_locker_can_be_called_off()
{
    auto client = open();
    auto holder = simba::lock_guard::make(client, "orders").value();
    auto waiter = simba::locker::make(client, "orders").value();
    std::atomic<int> code{1};
    std::thread thread([&] { code = waiter.acquire().code(); });
    while (code == 1) { /* it may not have begun to wait yet */
        waiter.cancel();
        std::this_thread::yield();
    }
    thread.join();
    CHECK(code == SIMBA_ECANCELED);
}

/* --- contender ------------------------------------------------------------------------------------ */

void a_contender_tells_its_lambdas()
{
    auto client = open();
    signal acquired, released;
    simba::reason why{};
    std::uint64_t token = 0;
    simba::contender_options options;
    options.id = "me";
    options.on_acquired = [&](simba::contender_ref self, const simba::change &change) {
        CHECK(self.is_owner() && self.id() == "me" && self.mutex() == "leader");
        CHECK(change.before.none() && change.after.id() == "me");
        token = self.token();
        acquired.raise();
    };
    options.on_released = [&](simba::contender_ref, const simba::change &, simba::reason reason) {
        why = reason;
        released.raise();
    };
    auto made = simba::contender::make(client, "leader", std::move(options));
    simba::contender contender = std::move(made).value();
    CHECK(contender.status() == simba::status::initial);
    CHECK(contender.start());
    CHECK(acquired.reached(1));
    CHECK(contender.held_for() > 0ms && contender.owner().id() == "me");
    CHECK(contender.stop());
    CHECK(released.reached(1));
    CHECK(why == simba::reason::stopped && token > 0);
    CHECK(std::string_view(to_string(why)) == "stopped");
}

/* The callables must outlive the callback that destroys their contender: it is followed by on_released. */
void a_contender_may_destroy_itself()
{
    auto client = open();
    signal released;
    std::optional<simba::contender> contender;
    std::mutex mutex;
    simba::contender_options options;
    options.on_acquired = [&, text = std::string(1000, 'x')](simba::contender_ref, const simba::change &) {
        const std::lock_guard<std::mutex> guard(mutex);
        contender.reset();
        CHECK(text.size() == 1000);
    };
    options.on_released = [&, text = std::string(1000, 'y')](simba::contender_ref, const simba::change &,
                                                             simba::reason) {
        CHECK(text.size() == 1000);
        released.raise();
    };
    {
        const std::lock_guard<std::mutex> guard(mutex);
        contender = simba::contender::make(client, "leader", std::move(options)).value();
        CHECK(contender->start());
    }
    CHECK(released.reached(1));
}

void what_hangs_off_a_client_may_outlive_it()
{
    std::optional<simba::client> client = open();
    auto contender = simba::contender::make(*client, "leader").value();
    auto locker = simba::locker::make(*client, "leader").value();
    CHECK(contender.start());
    client.reset();
    CHECK(contender.start().code() == SIMBA_ECLOSED);
    CHECK(locker.acquire(0ms).code() == SIMBA_ECLOSED);
    auto other = open();
    contender = simba::contender::make(other, "leader").value(); /* the old one goes */
    CHECK(contender.start());
}

/* --- scheduler and observer ----------------------------------------------------------------------- */

void a_scheduler_runs_on_the_leader()
{
    auto client = open();
    signal ran;
    simba::scheduler_options options;
    options.period = 1ms;
    options.work = [&](simba::run_ref run) {
        CHECK(run.token() > 0 && run.held_for() > 0ms);
        ran.raise();
        if (run.sleep(1us))
            CHECK(run.stopping());
    };
    auto scheduler = simba::scheduler::make(client, "work", std::move(options)).value();
    CHECK(scheduler.start());
    CHECK(ran.reached(3));
    CHECK(scheduler.is_leader());
    CHECK(scheduler.stop());
    CHECK(simba::scheduler::make(client, "work", {}).code() == SIMBA_EINVAL);
}

void an_observer_sees_who_comes_and_goes()
{
    auto client = open();
    signal seen;
    std::mutex mutex;
    std::string last = "?";
    simba::observer_options options;
    options.on_changed = [&](const simba::change &change) {
        const std::lock_guard<std::mutex> guard(mutex);
        last = change.after.id();
        seen.raise();
    };
    auto observer = simba::observer::make(client, "orders", std::move(options)).value();
    CHECK(observer.start());
    CHECK(seen.reached(1));
    simba::locker_options mine;
    mine.id = "holder";
    auto locker = simba::locker::make(client, "orders", mine).value();
    CHECK(locker.acquire());
    CHECK(seen.reached(2));
    CHECK(observer.owner().id() == "holder");
    CHECK(observer.stop());
    const std::lock_guard<std::mutex> guard(mutex);
    CHECK(last == "holder");
}

/* --- where callbacks run -------------------------------------------------------------------------- */

void an_executor_runs_the_callbacks()
{
    std::mutex mutex;
    std::condition_variable more;
    std::deque<std::function<void()>> queue;
    bool done = false;
    std::thread worker([&] {
        std::unique_lock<std::mutex> guard(mutex);
        while (!done || !queue.empty()) {
            if (queue.empty()) {
                more.wait(guard);
                continue;
            }
            const auto job = std::move(queue.front());
            queue.pop_front();
            guard.unlock();
            job();
            guard.lock();
        }
    });
    {
        simba::client_options options;
        options.dispatch = SIMBA_DISPATCH_EXECUTOR;
        options.executor = [&](std::function<void()> run) {
            const std::lock_guard<std::mutex> guard(mutex);
            queue.push_back(std::move(run));
            more.notify_all();
        };
        auto client = open(std::move(options));
        signal acquired;
        std::thread::id where;
        simba::contender_options told;
        told.on_acquired = [&](simba::contender_ref, const simba::change &) {
            where = std::this_thread::get_id();
            acquired.raise();
        };
        auto contender = simba::contender::make(client, "leader", std::move(told)).value();
        CHECK(contender.start());
        CHECK(acquired.reached(1));
        CHECK(where == worker.get_id());
    }
    {
        const std::lock_guard<std::mutex> guard(mutex);
        done = true;
        more.notify_all();
    }
    worker.join();
}

void a_loop_dispatches_the_callbacks()
{
    simba::client_options options;
    options.dispatch = SIMBA_DISPATCH_FD;
    auto client = open(std::move(options));
    bool acquired = false;
    simba::contender_options told;
    told.on_acquired = [&](simba::contender_ref, const simba::change &) { acquired = true; };
    auto contender = simba::contender::make(client, "leader", std::move(told)).value();
    CHECK(contender.start());
    pollfd ready = {client.fd().value(), POLLIN, 0};
    while (!acquired) {
        CHECK(poll(&ready, 1, 30000) == 1);
        CHECK(client.dispatch());
    }
}

void the_log_is_heard()
{
    std::atomic<int> lines{0};
    simba::client_options options;
    options.log = [&](simba_log_level, std::string_view text) { lines += !text.empty(); };
    options.log_level = SIMBA_LOG_EVENT;
    auto client = open(std::move(options));
    CHECK(simba::lock_guard::make(client, "orders"));
    CHECK(lines > 0);
}

void the_log_is_heard_in_parts()
{
    std::atomic<int> grants{0};
    simba::client_options options;
    options.log_record = [&](const simba_log_record &record) {
        grants += record.event == std::string_view("acquired") && record.field_count == 4;
    };
    options.log_level = SIMBA_LOG_INFO;
    auto client = open(std::move(options));
    auto locker = simba::locker::make(client, "orders").value();
    CHECK(locker.acquire());
    CHECK(grants == 1);
}

/* --- exceptions ----------------------------------------------------------------------------------- */

#ifdef __cpp_exceptions
template <typename Call> int thrown(Call call)
{
    try {
        call();
    } catch (const simba::failure &failure) {
        CHECK(std::string_view(failure.what()).size() > 0);
        return failure.code();
    }
    return 0;
}

void what_fails_throws_if_asked()
{
    CHECK(thrown([] { (void)simba::client::open("nowhere://").value(); }) != 0);
    auto client = open();
    const simba::lock_guard guard(client, "orders");
    guard.check();
    CHECK(thrown([&] { const simba::lock_guard second(client, "orders", 0ms); }) == SIMBA_ETIMEDOUT);
    CHECK(thrown([&] { const simba::lock_guard bad(client, ""); }) == SIMBA_EINVAL);
    CHECK(client.force_release("orders"));
    while (guard.held())
        std::this_thread::yield();
    CHECK(thrown([&] { guard.check(); }) == SIMBA_ELOST);
}

void the_guards_of_the_standard_take_a_locker()
{
    auto client = open();
    auto one = simba::locker::make(client, "orders").value();
    auto two = simba::locker::make(client, "orders").value();
    {
        const std::scoped_lock held(one);
        CHECK(one.held());
        CHECK(!two.try_lock());
        CHECK(!two.try_lock_for(1ms));
        CHECK(!two.try_lock_until(std::chrono::steady_clock::now()));
        CHECK(thrown([&] { one.lock(); }) == SIMBA_ESTATE);
    }
    std::unique_lock<simba::locker> held(two, 10s);
    CHECK(held.owns_lock() && !one.held());
}
#endif

void run(const char *name, void (*test)())
{
    failed = false;
    test();
    std::printf("%sok %d - %s\n", failed ? "not " : "", ++cases, name);
    std::fflush(stdout);
}
#define RUN(test) run(#test, test)

} // namespace

int main()
{
    RUN(a_bad_url_is_an_error_with_words);
    RUN(what_is_not_set_is_inherited);
    RUN(durations_are_rounded_up_and_bounded);
    RUN(two_lockers_exclude_each_other);
    RUN(a_note_goes_from_hand_to_hand);
    RUN(a_failed_run_may_begin_again);
    RUN(a_moved_locker_still_holds);
    RUN(a_guard_gives_back_at_the_end_of_its_scope);
    RUN(a_revoked_guard_is_told_of_it);
    RUN(a_waiting_locker_can_be_called_off);
    RUN(a_contender_tells_its_lambdas);
    RUN(a_contender_may_destroy_itself);
    RUN(what_hangs_off_a_client_may_outlive_it);
    RUN(a_scheduler_runs_on_the_leader);
    RUN(an_observer_sees_who_comes_and_goes);
    RUN(an_executor_runs_the_callbacks);
    RUN(a_loop_dispatches_the_callbacks);
    RUN(the_log_is_heard);
    RUN(the_log_is_heard_in_parts);
#ifdef __cpp_exceptions
    RUN(what_fails_throws_if_asked);
    RUN(the_guards_of_the_standard_take_a_locker);
#endif
    std::printf("1..%d\n", cases);
    return 0;
}
