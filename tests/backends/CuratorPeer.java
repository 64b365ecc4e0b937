// The peer in test_zookeeper_interop: Curator's LeaderLatch, told what to do on standard input, one word a line.
//   start   contend; answers "started". When it leads it makes the file, which must not exist, and says "leads"
//   owner   who leads, by the latch; answers "owner ID"
//   stop    remove the file, if it leads, and leave; answers "left"
// Arguments: the server's address, the path of the mutex, its own id, the file.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.RetryOneTime;

public final class CuratorPeer {
    static synchronized void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    static LeaderLatch start(CuratorFramework client, String path, String id, Path file) throws Exception {
        LeaderLatch latch = new LeaderLatch(client, path, id);
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                try {
                    Files.createFile(file);
                    say("leads");
                } catch (FileAlreadyExistsException e) {
                    say("two lead at once");
                } catch (Exception e) {
                    say("failed " + e);
                }
            }

            @Override
            public void notLeader() {
            }
        });
        latch.start();
        return latch;
    }

    public static void main(String[] args) throws Exception {
        Path file = Path.of(args[3]);
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 20000, 5000, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        LeaderLatch latch = null;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("start")) {
                latch = start(client, args[1], args[2], file);
                say("started");
            } else if (line.equals("owner")) {
                say("owner " + latch.getLeader().getId());
            } else if (line.equals("stop")) {
                if (latch.hasLeadership())
                    Files.delete(file);
                latch.close();
                say("left");
            }
        }
        System.exit(0);
    }
}
