// java Orders.java STEPS: work on the orders, step by step, while holding the mutex "orders".
import java.util.concurrent.CompletableFuture;
import java.util.regex.Pattern;

public class Orders {
    static String field(String name, String line) {
        var found = Pattern.compile("\"" + name + "\":\"([^\"]*)\"").matcher(line);
        return found.find() ? found.group(1) : "simba has ended";
    }

    interface Work { void run(String token, CompletableFuture<String> lost) throws Exception; }

    /** While the work runs, the mutex is held. When `lost` is done, or simba was killed, the work must end within the grace. */
    static void withMutex(String mutex, Work work) throws Exception {
        Process hold = new ProcessBuilder("simba", "hold", "--grace", "1s", mutex)
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (var keeps = hold.getOutputStream(); var lines = hold.inputReader()) {
            String first = String.valueOf(lines.readLine());
            if (!field("event", first).equals("acquired")) throw new Exception("not obtained: " + field("text", first));
            var lost = CompletableFuture.supplyAsync(() -> field("reason", lines.lines().findFirst().orElse("")));
            work.run(field("token", first), lost);
            keeps.close(); // gives the mutex back
            hold.waitFor();
        }
    }

    public static void main(String[] args) throws Exception {
        withMutex("orders", (token, lost) -> {
            System.out.println("working under token " + token);
            for (int step = 0; step < Integer.parseInt(args[0]) && !lost.isDone(); step++) Thread.sleep(100); // the work
            System.out.println(lost.isDone() ? "lost: " + lost.get() : "done");
            if (lost.isDone()) System.exit(79);
        });
    }
}
