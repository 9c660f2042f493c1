package lockkeeper.interop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.redisson.RedissonMultiLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Redisson's lock objects, one for each kind and name, as a service keeps them. */
final class Locks {
    private final RedissonClient client;
    private final Map<String, RLock> locks = new ConcurrentHashMap<>();

    Locks(RedissonClient client) {
        this.client = client;
    }

    /** For {@code multi} the name is that of all members, with {@code +} between them. */
    RLock get(String kind, String name) {
        return locks.computeIfAbsent(kind + " " + name, key -> make(kind, name));
    }

    private RLock make(String kind, String name) {
        return switch (kind) {
            case "mutex" -> client.getLock(name);
            case "fair" -> client.getFairLock(name);
            case "fenced" -> client.getFencedLock(name);
            case "spin" -> client.getSpinLock(name);
            case "read" -> client.getReadWriteLock(name).readLock();
            case "write" -> client.getReadWriteLock(name).writeLock();
            case "multi" -> new RedissonMultiLock(
                    Stream.of(name.split("\\+")).map(client::getLock).toArray(RLock[]::new));
            default -> throw new UnsupportedOperationException("no kind of lock: " + kind);
        };
    }
}
