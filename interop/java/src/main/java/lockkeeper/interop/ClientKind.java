package lockkeeper.interop;

import org.redisson.api.RedissonClient;

/** The client itself; the name is of no account. */
final class ClientKind implements Objects.Kind {
    private final RedissonClient client;

    ClientKind(RedissonClient client) {
        this.client = client;
    }

    @Override
    public Object perform(Request request) {
        return switch (request.method()) {
            case "owner" -> owner(client);
            case "version" -> client.getClass().getPackage().getImplementationVersion();
            default -> throw request.unknown();
        };
    }

    /** The text by which Redisson marks what the calling thread holds. */
    @SuppressWarnings("deprecation") // Its successor is not in every JDK that this runs on.
    static String owner(RedissonClient client) {
        return client.getId() + ":" + Thread.currentThread().getId();
    }
}
