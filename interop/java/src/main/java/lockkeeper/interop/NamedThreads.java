package lockkeeper.interop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Threads that live as long as the driver, each made when it is first named. */
final class NamedThreads {
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();

    void run(String name, Runnable work) {
        threads.computeIfAbsent(name, NamedThreads::start).execute(work);
    }

    private static ExecutorService start(String name) {
        return Executors.newSingleThreadExecutor(work -> {
            Thread thread = new Thread(work, name);
            thread.setDaemon(true);
            return thread;
        });
    }
}
