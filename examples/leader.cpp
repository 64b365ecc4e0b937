/* Leader election in C++: handles that clean up after themselves, std::chrono, lambdas.   usage: leader [URL] */
#include <cstdio>
#include <future>
#include <simba.hpp>

int main(int argc, char **argv)
{
    using namespace std::chrono_literals;
    auto client = simba::client::open(argc > 1 ? argv[1] : "memory://example");
    if (!client) {
        std::fprintf(stderr, "cannot open the store: %s\n", client.error().text());
        return 1;
    }
    std::promise<void> led;
    simba::contender_options options;
    options.timing.ttl = 5s;
    options.on_acquired = [&](simba::contender_ref self, const simba::change &) {
        std::printf("%s leads under token %llu\n", self.id().data(), static_cast<unsigned long long>(self.token()));
        led.set_value();
    };
    options.on_released = [](simba::contender_ref, const simba::change &, simba::reason why) {
        std::printf("ended: %s\n", to_string(why));
    };
    auto contender = simba::contender::make(*client, "orders", options);
    if (!contender || !contender->start())
        return 1;
    led.get_future().wait();
    return 0; /* the contender stops, which runs on_released and then gives the mutex back; then the client closes */
}
