// Redisson's lock, which its waiters hear of by publish and subscribe. A lease is given for `hold` alone; otherwise the library
// renews, as is its default.
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public class Redisson implements Peer.Client {
    private final RedissonClient client;

    public Redisson(String address) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + address).setConnectionMinimumIdleSize(2);
        client = org.redisson.Redisson.create(config);
    }

    RLock find(RedissonClient from, String name) {
        return from.getLock("redisson:" + name);
    }

    @Override
    public Peer.Lock lock(String name, long leaseMs) {
        RLock lock = find(client, name);
        return new Peer.Lock() {
            @Override
            public void acquire() {
                if (leaseMs == Peer.PAIRS_LEASE_MS)
                    lock.lock();
                else
                    lock.lock(leaseMs, TimeUnit.MILLISECONDS);
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    @Override
    public void close() {
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }
}
