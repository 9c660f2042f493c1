package lockkeeper.interop;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** What the driver is started with: the server, and Redisson's two times (in milliseconds). */
record Options(String address, long watchdog, long fairWait) {
    static Options parse(String[] arguments) {
        if (arguments.length != 3) {
            throw new IllegalArgumentException("arguments: ADDRESS WATCHDOG-MILLISECONDS FAIR-WAIT-MILLISECONDS");
        }
        return new Options(arguments[0], Long.parseLong(arguments[1]), Long.parseLong(arguments[2]));
    }

    RedissonClient connect() {
        Config config = new Config();
        config.setLockWatchdogTimeout(watchdog);
        config.setFairLockWaitTimeout(fairWait);
        config.useSingleServer()
                .setAddress(address)
                .setConnectionMinimumIdleSize(2)
                .setConnectionPoolSize(16)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(4);
        return Redisson.create(config);
    }
}
