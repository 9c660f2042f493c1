package lockkeeper.interop;

import java.util.Random;
import org.redisson.api.RBucket;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** The work under a lock, in plain keys beside it: {@code inside:NAME} and {@code counter:NAME}. */
final class Section {
    private final RedissonClient client;
    private final Random random;

    Section(RedissonClient client, Random random) {
        this.client = client;
        this.random = random;
    }

    void run(Contended contended) throws InterruptedException {
        for (String name : contended.names()) {
            switch (contended.limit()) {
                case 0 -> read(name);
                case 1 -> increment(name);
                default -> stay(name, contended.limit());
            }
        }
    }

    /** Reads, thinks and writes: an update is lost if anybody else is inside. */
    private void increment(String name) throws InterruptedException {
        enter(name, 1);
        RBucket<String> counter = counter(name);
        long seen = number(counter.get());
        think();
        counter.set(Long.toString(seen + 1));
        leave(name);
    }

    /** Reads twice: nothing may change under a reader. */
    private void read(String name) throws InterruptedException {
        RBucket<String> counter = counter(name);
        long before = number(counter.get());
        think();
        long after = number(counter.get());
        if (before != after) {
            throw new IllegalStateException(name + " changed under a reader from " + before + " to " + after);
        }
    }

    private void stay(String name, int limit) throws InterruptedException {
        enter(name, limit);
        think();
        leave(name);
    }

    private void enter(String name, int limit) {
        long inside = client.getAtomicLong("inside:" + name).incrementAndGet();
        if (inside > limit) {
            throw new IllegalStateException(inside + " are inside of " + name + ", which " + limit + " may be");
        }
    }

    private void leave(String name) {
        client.getAtomicLong("inside:" + name).decrementAndGet();
    }

    private void think() throws InterruptedException {
        if (random.nextInt(8) == 0) {
            Thread.sleep(random.nextInt(5));
        }
    }

    private RBucket<String> counter(String name) {
        return client.getBucket("counter:" + name, StringCodec.INSTANCE);
    }

    private static long number(String text) {
        return text == null ? 0 : Long.parseLong(text);
    }
}
