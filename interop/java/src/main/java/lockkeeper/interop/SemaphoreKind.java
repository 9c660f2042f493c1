package lockkeeper.interop;

import java.time.Duration;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** A semaphore that is a plain counter. */
final class SemaphoreKind implements Objects.Kind {
    private final RedissonClient client;

    SemaphoreKind(RedissonClient client) {
        this.client = client;
    }

    @Override
    public Object perform(Request request) throws InterruptedException {
        RSemaphore semaphore = client.getSemaphore(request.name());
        return switch (request.method()) {
            case "trySetPermits" -> semaphore.trySetPermits(request.count(0));
            case "addPermits" -> {
                semaphore.addPermits(request.count(0));
                yield "-";
            }
            case "drainPermits" -> semaphore.drainPermits();
            case "availablePermits" -> semaphore.availablePermits();
            case "acquire" -> {
                semaphore.acquire(request.count(0));
                yield "-";
            }
            // PERMITS [WAIT]
            case "tryAcquire" -> request.has(1)
                    ? semaphore.tryAcquire(request.count(0))
                    : semaphore.tryAcquire(request.count(0), Duration.ofMillis(request.number(1)));
            case "release" -> {
                semaphore.release(request.count(0));
                yield "-";
            }
            case "delete" -> semaphore.delete();
            default -> throw request.unknown();
        };
    }
}
