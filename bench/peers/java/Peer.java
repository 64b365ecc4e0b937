// The protocol of bench/peers for peers in Java: reads a command per line and answers each with one line, see ../README.md.
// Arguments: the class of the peer, and the address of its server.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

public final class Peer {
    static final long PAIRS_LEASE_MS = 10000;

    /** A lock of a client, for one thread. */
    interface Lock {
        void acquire() throws Exception;
        void release() throws Exception;
    }

    /** A connection of its own, or what the library calls a client. The address is given to its constructor. */
    interface Client {
        Lock lock(String name, long leaseMs) throws Exception;
        void close() throws Exception;
    }

    interface Run {
        LongStream run(Lock lock, long untilNs) throws Exception;
    }

    static Client open(String kind, String address) throws Exception {
        return (Client) Class.forName(kind).getConstructor(String.class).newInstance(address);
    }

    static void fail(Exception e) {
        System.out.println("error " + e.toString().replace('\n', ' '));
        System.out.flush();
        Runtime.getRuntime().halt(1);
    }

    static LongStream pair(Lock lock, long untilNs) throws Exception {
        LongStream.Builder samples = LongStream.builder();
        long start = System.nanoTime();
        do {
            lock.acquire();
            lock.release();
            long end = System.nanoTime();
            samples.add(end - start);
            start = end;
        } while (start < untilNs);
        return samples.build();
    }

    // nanoTime is CLOCK_MONOTONIC here, which all processes share.
    static LongStream grants(Lock lock, long untilNs) throws Exception {
        LongStream.Builder stamps = LongStream.builder();
        while (System.nanoTime() < untilNs) {
            lock.acquire();
            stamps.add(System.nanoTime());
            lock.release();
        }
        return stamps.build();
    }

    static long[][] together(Lock[] locks, long ms, Run run) throws Exception {
        long[][] results = new long[locks.length][];
        Thread[] threads = new Thread[locks.length];
        long untilNs = System.nanoTime() + ms * 1000000;
        for (int i = 0; i < locks.length; i++) {
            final int me = i;
            threads[i] = new Thread(() -> {
                try {
                    results[me] = run.run(locks[me], untilNs).toArray();
                } catch (Exception e) {
                    fail(e);
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads)
            thread.join();
        return results;
    }

    static String pairs(Client client, int threads, long ms) throws Exception {
        Lock[] locks = new Lock[threads];
        for (int i = 0; i < threads; i++)
            locks[i] = client.lock("pairs-" + ProcessHandle.current().pid() + "-" + i, PAIRS_LEASE_MS);
        long start = System.nanoTime();
        long[][] results = together(locks, ms, Peer::pair);
        long elapsed = System.nanoTime() - start;
        long[] all = Arrays.stream(results).flatMapToLong(Arrays::stream).sorted().toArray();
        return "pairs " + all.length + " " + elapsed + " " + all[all.length / 2] + " " + all[(int) (all.length * 99L / 100)];
    }

    static String fight(String kind, String address, String name, int clients, long ms) throws Exception {
        Client[] opened = new Client[clients];
        Lock[] locks = new Lock[clients];
        for (int i = 0; i < clients; i++) {
            opened[i] = open(kind, address);
            locks[i] = opened[i].lock(name, PAIRS_LEASE_MS);
        }
        long[][] results = together(locks, ms, Peer::grants);
        for (Client client : opened)
            client.close();
        return "fight " + Arrays.stream(results)
            .map(r -> r.length == 0 ? "-" : Arrays.stream(r).mapToObj(Long::toString).collect(Collectors.joining(",")))
            .collect(Collectors.joining(" "));
    }

    static String answer(Client client, String kind, String address, String[] words) throws Exception {
        switch (words[0]) {
        case "pairs":
            return pairs(client, Integer.parseInt(words[1]), Long.parseLong(words[2]));
        case "fight":
            return fight(kind, address, words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]));
        case "hold":
            client.lock(words[1], Long.parseLong(words[2])).acquire();
            return "held " + System.nanoTime();
        case "wait":
            Lock lock = client.lock(words[1], Long.parseLong(words[2]));
            lock.acquire();
            String got = "got " + System.nanoTime();
            lock.release();
            return got;
        default:
            throw new IllegalArgumentException("not understood: " + words[0]);
        }
    }

    public static void main(String[] args) throws Exception {
        try {
            Client client = open(args[0], args[1]);
            System.out.println("ready");
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line = in.readLine(); line != null; line = in.readLine())
                System.out.println(answer(client, args[0], args[1], line.split(" ")));
        } catch (Exception e) {
            fail(e);
        }
        Runtime.getRuntime().halt(0);
    }
}
