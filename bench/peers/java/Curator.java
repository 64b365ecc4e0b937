// Curator's InterProcessMutex. A lock ends with the session, whose length is that of the leases.
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

public final class Curator implements Peer.Client {
    private final String address;
    private CuratorFramework session;

    public Curator(String address) throws Exception {
        this.address = address;
    }

    private CuratorFramework connect(long leaseMs) throws Exception {
        CuratorFramework made = CuratorFrameworkFactory.newClient(address, (int) leaseMs, 5000, new RetryOneTime(100));
        made.start();
        made.blockUntilConnected();
        return made;
    }

    @Override
    public Peer.Lock lock(String name, long leaseMs) throws Exception {
        if (session == null)
            session = connect(leaseMs);
        InterProcessMutex mutex = new InterProcessMutex(session, "/curator/" + name);
        return new Peer.Lock() {
            @Override
            public void acquire() throws Exception {
                mutex.acquire();
            }

            @Override
            public void release() throws Exception {
                mutex.release();
            }
        };
    }

    @Override
    public void close() {
        if (session != null)
            session.close();
    }
}
