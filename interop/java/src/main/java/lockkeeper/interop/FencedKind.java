package lockkeeper.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RFencedLock;
import org.redisson.api.RedissonClient;

/** What a fenced lock can do beside what all locks do. */
final class FencedKind implements Objects.Kind {
    private final RedissonClient client;
    private final Objects.Kind lock;

    FencedKind(RedissonClient client, Objects.Kind lock) {
        this.client = client;
        this.lock = lock;
    }

    @Override
    public Object perform(Request request) throws Exception {
        RFencedLock fenced = client.getFencedLock(request.name());
        return switch (request.method()) {
            case "lockAndGetToken" -> fenced.lockAndGetToken();
            // With a wait of 0 it makes one attempt; the form without arguments blocks. Null if it was refused.
            case "tryLockAndGetToken" -> request.has(1)
                    ? fenced.tryLockAndGetToken(request.number(0), MILLISECONDS)
                    : fenced.tryLockAndGetToken(request.number(0), request.number(1), MILLISECONDS);
            case "getToken" -> fenced.getToken();
            default -> lock.perform(request);
        };
    }
}
