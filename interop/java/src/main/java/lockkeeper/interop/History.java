package lockkeeper.interop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What this process believed to hold, in the form that the Rust tests' checker reads: a JSON line for each event, by
 * the clock that all processes of the machine share.
 */
final class History {
    private final Writer file;
    private final String process;
    private final long clockOffset;
    private final AtomicLong attempts = new AtomicLong();

    private History(Writer file, String process, long clockOffset) {
        this.file = file;
        this.process = process;
        this.clockOffset = clockOffset;
    }

    /** The offset is what has to be added to {@link System#nanoTime} to get the clock of the other processes. */
    static History open(Path path, String process, long clockOffset) {
        try {
            Writer file = Files.newBufferedWriter(path, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            return new History(file, process, clockOffset);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** An attempt begins: one entry for each name. */
    Attempt called(List<String> names, boolean shared) throws IOException {
        long first = attempts.getAndAdd(names.size()) + 1;
        Attempt attempt = new Attempt(first, names.size());
        long at = now();
        for (int index = 0; index < names.size(); index++) {
            write(first + index, at, "called\",\"object\":\"" + names.get(index) + "\",\"sharing\":\""
                    + (shared ? "shared" : "exclusive") + "\"");
        }
        return attempt;
    }

    private long now() {
        return System.nanoTime() + clockOffset;
    }

    private synchronized void write(long number, long at, String event) throws IOException {
        file.write("{\"process\":\"" + process + "\",\"number\":" + number + ",\"at\":" + at + ",\"event\":\"" + event
                + "}\n");
        file.flush();
    }

    /** An attempt under way, and then the hold that it became. */
    final class Attempt {
        private final long first;
        private final int count;

        private Attempt(long first, int count) {
            this.first = first;
            this.count = count;
        }

        void granted(String owner, Long token) throws IOException {
            all("granted\",\"owner\":\"" + owner + "\",\"token\":" + token + ",\"deadline\":null");
        }

        void refused(String reason) throws IOException {
            all("refused\",\"reason\":\"" + reason + "\"");
        }

        /** To be called just before the release: from then on nobody may rely on the hold. */
        void releaseCalled() throws IOException {
            all("release-called\"");
        }

        private void all(String event) throws IOException {
            long at = now();
            for (int index = 0; index < count; index++) {
                write(first + index, at, event);
            }
        }
    }
}
