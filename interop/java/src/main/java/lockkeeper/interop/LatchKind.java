package lockkeeper.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RCountDownLatch;
import org.redisson.api.RedissonClient;

/** A count-down latch. */
final class LatchKind implements Objects.Kind {
    private final RedissonClient client;

    LatchKind(RedissonClient client) {
        this.client = client;
    }

    @Override
    public Object perform(Request request) throws InterruptedException {
        RCountDownLatch latch = client.getCountDownLatch(request.name());
        return switch (request.method()) {
            case "trySetCount" -> latch.trySetCount(request.number(0));
            case "countDown" -> {
                latch.countDown();
                yield "-";
            }
            case "getCount" -> latch.getCount();
            case "await" -> latch.await(request.number(0), MILLISECONDS);
            case "delete" -> latch.delete();
            default -> throw request.unknown();
        };
    }
}
