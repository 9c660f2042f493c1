package lockkeeper.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** A semaphore whose permits are leased and known by ids. Several ids stand in one word with commas between them. */
final class PermitsKind implements Objects.Kind {
    private final RedissonClient client;

    PermitsKind(RedissonClient client) {
        this.client = client;
    }

    @Override
    public Object perform(Request request) throws InterruptedException {
        RPermitExpirableSemaphore permits = client.getPermitExpirableSemaphore(request.name());
        return switch (request.method()) {
            case "trySetPermits" -> permits.trySetPermits(request.count(0));
            case "setPermits" -> {
                permits.setPermits(request.count(0));
                yield "-";
            }
            case "addPermits" -> {
                permits.addPermits(request.count(0));
                yield "-";
            }
            case "availablePermits" -> permits.availablePermits();
            case "acquiredPermits" -> permits.acquiredPermits();
            case "getPermits" -> permits.getPermits();
            // PERMITS [LEASE]
            case "acquire" -> words(request.has(1)
                    ? permits.acquire(request.count(0))
                    : permits.acquire(request.count(0), request.number(1), MILLISECONDS));
            // PERMITS WAIT LEASE, where a lease of -1 is one for ever
            case "tryAcquire" -> words(
                    permits.tryAcquire(request.count(0), request.number(1), request.number(2), MILLISECONDS));
            case "tryRelease" -> tryRelease(permits, ids(request));
            case "release" -> {
                release(permits, ids(request));
                yield "-";
            }
            case "getLeaseTime" -> permits.getLeaseTime(request.text(0));
            case "updateLeaseTime" -> permits.updateLeaseTime(request.text(0), request.number(1), MILLISECONDS);
            case "delete" -> permits.delete();
            default -> throw request.unknown();
        };
    }

    private static Object tryRelease(RPermitExpirableSemaphore permits, List<String> ids) {
        return ids.size() == 1 ? permits.tryRelease(ids.get(0)) : permits.tryRelease(ids);
    }

    private static void release(RPermitExpirableSemaphore permits, List<String> ids) {
        if (ids.size() == 1) {
            permits.release(ids.get(0));
        } else {
            permits.release(ids);
        }
    }

    private static List<String> ids(Request request) {
        return List.of(request.text(0).split(","));
    }

    private static String words(List<String> ids) {
        return ids == null || ids.isEmpty() ? "null" : String.join(",", ids);
    }
}
