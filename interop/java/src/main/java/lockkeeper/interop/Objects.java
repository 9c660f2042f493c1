package lockkeeper.interop;

import java.util.Map;
import org.redisson.api.RedissonClient;

/** Every kind of object that the driver knows. */
final class Objects {
    /** What can be asked of one kind. */
    interface Kind {
        Object perform(Request request) throws Exception;
    }

    private final Map<String, Kind> kinds;

    Objects(RedissonClient client) {
        Locks locks = new Locks(client);
        Kind lock = new LockKind(locks);
        kinds = Map.ofEntries(
                Map.entry("mutex", lock),
                Map.entry("fair", lock),
                Map.entry("spin", lock),
                Map.entry("read", lock),
                Map.entry("write", lock),
                Map.entry("multi", lock),
                Map.entry("fenced", new FencedKind(client, lock)),
                Map.entry("permits", new PermitsKind(client)),
                Map.entry("semaphore", new SemaphoreKind(client)),
                Map.entry("latch", new LatchKind(client)),
                Map.entry("client", new ClientKind(client)),
                Map.entry("load", new LoadKind(client, locks)));
    }

    Object perform(Request request) throws Exception {
        Kind kind = kinds.get(request.object());
        if (kind == null) {
            throw new UnsupportedOperationException("no kind of object: " + request.object());
        }
        return kind.perform(request);
    }
}
