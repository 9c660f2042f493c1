package lockkeeper.interop;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisTimeoutException;

/**
 * Random work on a few names, as one thread of a busy service does it, with a record of what it believed to hold.
 *
 * <p>{@code load run PROCESS FILE CLOCK-OFFSET MILLISECONDS SEED CONTENDED...}, where a contended object is written as
 * {@code KIND:NAME} or {@code KIND:NAME:PERMITS}. Several threads of one process may write to one file.
 */
final class LoadKind implements Objects.Kind {
    /** A wait that has to end in a grant: nothing is held for longer than a few milliseconds. */
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final RedissonClient client;
    private final Locks locks;
    private final Map<String, History> histories = new ConcurrentHashMap<>();

    LoadKind(RedissonClient client, Locks locks) {
        this.client = client;
        this.locks = locks;
    }

    @Override
    public Object perform(Request request) throws Exception {
        if (!request.method().equals("run")) {
            throw request.unknown();
        }
        History history = histories.computeIfAbsent(request.text(0),
                file -> History.open(Path.of(file), request.name(), request.number(1)));
        long end = System.nanoTime() + Duration.ofMillis(request.number(2)).toNanos();
        Random random = new Random(request.number(3));
        List<Contended> all = new ArrayList<>();
        for (String description : request.arguments().subList(4, request.arguments().size())) {
            all.addAll(Contended.of(client, locks, description));
        }
        Section section = new Section(client, random);
        long grants = 0;
        while (System.nanoTime() - end < 0) {
            grants += round(history, all.get(random.nextInt(all.size())), section, random);
        }
        return grants;
    }

    private int round(History history, Contended contended, Section section, Random random)
            throws IOException, InterruptedException {
        boolean patient = !contended.mayGiveUp() || random.nextInt(4) > 0;
        Duration wait = patient ? PATIENCE : Duration.ofMillis(random.nextInt(20));
        History.Attempt attempt = history.called(contended.names(), contended.shared());
        Contended.Hold hold;
        try {
            hold = contended.acquire(wait);
        } catch (RedisTimeoutException error) {
            // So 3.52.0 says that there was no time even to subscribe.
            if (patient) {
                throw error;
            }
            hold = null;
        }
        if (hold == null) {
            attempt.refused(patient ? "stuck" : "impatient");
            return 0;
        }
        attempt.granted(ClientKind.owner(client), hold.token());
        section.run(contended);
        attempt.releaseCalled();
        hold.release().run();
        return 1;
    }
}
