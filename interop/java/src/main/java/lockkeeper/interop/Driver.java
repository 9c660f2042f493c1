package lockkeeper.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Does with Redisson what it is told on standard input, one request a line, and prints one reply line each.
 *
 * <p>A request is {@code NUMBER THREAD OBJECT METHOD NAME ARGUMENT...}, with Redisson's own method names and times in
 * milliseconds. Its reply is {@code NUMBER ok VALUE} or {@code NUMBER error CLASS: MESSAGE}. Requests for one thread
 * run one after the other on that thread, which owns what it locks; those of other threads go on meanwhile.
 */
public final class Driver {
    private Driver() {}

    public static void main(String[] arguments) throws IOException {
        Options options = Options.parse(arguments);
        PrintStream replies = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Objects objects = new Objects(options.connect());
        NamedThreads threads = new NamedThreads();
        replies.println("ready");
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Request request = Request.parse(line);
            threads.run(request.thread(), () -> replies.println(request.number() + " " + answer(objects, request)));
        }
        // Whoever started us is gone or wants no more: as a crash, so that nothing is tidied up behind a test's back.
        Runtime.getRuntime().halt(0);
    }

    private static String answer(Objects objects, Request request) {
        try {
            return "ok " + objects.perform(request);
        } catch (Exception | LinkageError error) {
            String message = String.valueOf(error.getMessage()).replace('\n', ' ');
            return "error " + error.getClass().getSimpleName() + ": " + message;
        }
    }
}
