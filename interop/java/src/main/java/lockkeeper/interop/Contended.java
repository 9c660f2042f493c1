package lockkeeper.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.time.Duration;
import java.util.List;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/**
 * An object that the load fights for.
 *
 * @param names what it protects, as the history knows it
 * @param limit how many may hold it at once; 0 for readers, of whom there may be any number
 * @param mayGiveUp whether a waiter may go away: behind one that leaves a fair queue Redisson strands the next
 * @param way how it is acquired
 */
record Contended(List<String> names, int limit, boolean mayGiveUp, Way way) {
    /** A hold, and how it is given back. */
    record Hold(Long token, Runnable release) {}

    /** Acquires within so many milliseconds, else null. */
    interface Way {
        Hold acquire(long wait) throws InterruptedException;
    }

    private static final long LEASE = 30_000;

    boolean shared() {
        return limit != 1;
    }

    Hold acquire(Duration wait) throws InterruptedException {
        return way.acquire(wait.toMillis());
    }

    /** One for each way in which the described object is used: readers and writers are two. */
    static List<Contended> of(RedissonClient client, Locks locks, String description) {
        String[] parts = description.split(":");
        String kind = parts[0];
        String name = parts[1];
        return switch (kind) {
            case "rwlock" -> List.of(
                    new Contended(List.of(name), 0, true, lock(locks.get("read", name))),
                    new Contended(List.of(name), 1, true, lock(locks.get("write", name))));
            case "fenced" -> List.of(new Contended(List.of(name), 1, true, fenced(client.getFencedLock(name))));
            case "permits" -> List.of(new Contended(List.of(name), Integer.parseInt(parts[2]), true,
                    permits(client.getPermitExpirableSemaphore(name))));
            case "semaphore" -> List.of(new Contended(List.of(name), Integer.parseInt(parts[2]), true,
                    semaphore(client.getSemaphore(name))));
            default -> List.of(new Contended(List.of(name.split("\\+")), 1, !kind.equals("fair"),
                    lock(locks.get(kind, name))));
        };
    }

    private static Way lock(RLock lock) {
        return wait -> lock.tryLock(wait, MILLISECONDS) ? new Hold(null, lock::unlock) : null;
    }

    private static Way fenced(RFencedLock lock) {
        return wait -> {
            Long token = lock.tryLockAndGetToken(wait, MILLISECONDS);
            return token == null ? null : new Hold(token, lock::unlock);
        };
    }

    private static Way permits(RPermitExpirableSemaphore permits) {
        return wait -> {
            String id = permits.tryAcquire(wait, LEASE, MILLISECONDS);
            return id == null ? null : new Hold(null, () -> permits.release(id));
        };
    }

    private static Way semaphore(RSemaphore semaphore) {
        return wait -> semaphore.tryAcquire(Duration.ofMillis(wait)) ? new Hold(null, semaphore::release) : null;
    }
}
