// Redisson's fair lock: its waiters come in the order in which they asked.
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

public final class RedissonFair extends Redisson {
    public RedissonFair(String address) {
        super(address);
    }

    @Override
    RLock find(RedissonClient from, String name) {
        return from.getFairLock("redisson-fair:" + name);
    }
}
