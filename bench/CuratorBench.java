// Curator's side of bench_zookeeper: reads commands from standard input, one a line, and answers each with a number.
//   pairs N   N times acquire and release of an InterProcessMutex that nobody else wants; nanoseconds
//   fight MS  sixteen sessions, a thread each, fight for one InterProcessMutex; hand-overs between different ones
// Arguments: the server's address.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

public final class CuratorBench {
    static final int FIGHTERS = 16;

    static CuratorFramework open(String address) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(address, 10000, 5000, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    static long pairs(InterProcessMutex mutex, long count) throws Exception {
        long start = System.nanoTime();
        for (long i = 0; i < count; i++) {
            mutex.acquire();
            mutex.release();
        }
        return System.nanoTime() - start;
    }

    static long fight(CuratorFramework[] clients, long millis) throws Exception {
        AtomicInteger last = new AtomicInteger(-1);
        AtomicLong handed = new AtomicLong();
        long until = System.nanoTime() + millis * 1000000;
        Thread[] threads = new Thread[FIGHTERS];
        for (int i = 0; i < FIGHTERS; i++) {
            final int me = i;
            threads[i] = new Thread(() -> {
                InterProcessMutex mutex = new InterProcessMutex(clients[me], "/curator/fight");
                try {
                    while (System.nanoTime() < until) {
                        mutex.acquire();
                        if (last.getAndSet(me) != me)
                            handed.incrementAndGet();
                        mutex.release();
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads)
            thread.join();
        return handed.get();
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework[] clients = new CuratorFramework[FIGHTERS];
        for (int i = 0; i < FIGHTERS; i++)
            clients[i] = open(args[0]);
        InterProcessMutex mutex = new InterProcessMutex(clients[0], "/curator/plain");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            long number = Long.parseLong(words[1]);
            System.out.println(words[0].equals("pairs") ? pairs(mutex, number) : fight(clients, number));
        }
        System.exit(0);
    }
}
