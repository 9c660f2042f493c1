package lockkeeper.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RLock;

/** What all of Redisson's locks can do. */
final class LockKind implements Objects.Kind {
    private final Locks locks;

    LockKind(Locks locks) {
        this.locks = locks;
    }

    @Override
    public Object perform(Request request) throws InterruptedException {
        RLock lock = locks.get(request.object(), request.name());
        return switch (request.method()) {
            case "lock" -> lock(lock, request);
            case "tryLock" -> tryLock(lock, request);
            case "unlock" -> {
                lock.unlock();
                yield "-";
            }
            case "forceUnlock" -> lock.forceUnlock();
            case "isLocked" -> lock.isLocked();
            case "isHeldByCurrentThread" -> lock.isHeldByCurrentThread();
            case "getHoldCount" -> lock.getHoldCount();
            case "remainTimeToLive" -> lock.remainTimeToLive();
            default -> throw request.unknown();
        };
    }

    private static String lock(RLock lock, Request request) {
        if (request.has(0)) {
            lock.lock();
        } else {
            lock.lock(request.number(0), MILLISECONDS);
        }
        return "-";
    }

    private static boolean tryLock(RLock lock, Request request) throws InterruptedException {
        return switch (request.arguments().size()) {
            case 0 -> lock.tryLock();
            case 1 -> lock.tryLock(request.number(0), MILLISECONDS);
            case 2 -> lock.tryLock(request.number(0), request.number(1), MILLISECONDS);
            default -> throw request.unknown();
        };
    }
}
