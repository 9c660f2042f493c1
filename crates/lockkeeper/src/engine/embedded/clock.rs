use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::base::clock::{Clock, SystemClock};

/// The time that has passed since the clock was made: on the clock of the runtime it was made in, so that it stands
/// still and moves with tokio's paused clock, else on the system's.
///
/// It can be read from everywhere: from another thread or runtime, after the runtime's end, and from a guard that is
/// dropped while its thread goes away.
#[derive(Debug)]
pub(super) struct RuntimeClock {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Runtime { handle: Handle, origin: Instant },
    System { origin: Duration },
}

impl RuntimeClock {
    pub(super) fn new() -> Self {
        let source = match Handle::try_current() {
            Ok(handle) => Source::Runtime {
                handle,
                origin: Instant::now(),
            },
            Err(_) => Source::System {
                origin: SystemClock.now(),
            },
        };
        Self { source }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Duration {
        match &self.source {
            Source::Runtime { handle, origin } => now_in(handle).saturating_duration_since(*origin),
            Source::System { origin } => SystemClock.now().saturating_sub(*origin),
        }
    }
}

/// The present moment as `handle`'s runtime sees it.
fn now_in(handle: &Handle) -> Instant {
    match Handle::try_current() {
        Ok(current) if current.id() == handle.id() => Instant::now(),
        // Entering panics only where the thread's tokio context is gone already.
        Err(error) if error.is_thread_local_destroyed() => now_from_a_new_thread(handle),
        _ => {
            let _entered = handle.enter();
            Instant::now()
        }
    }
}

/// Asks from a thread that still has its tokio context; this one is going away. Rare, and worth the cost: a stale answer
/// would let a hold be believed past its deadline.
fn now_from_a_new_thread(handle: &Handle) -> Instant {
    let handle = handle.clone();
    std::thread::Builder::new()
        .spawn(move || {
            let _entered = handle.enter();
            Instant::now()
        })
        .ok()
        .and_then(|thread| thread.join().ok())
        // Without threads there is only the system's time left.
        .unwrap_or_else(|| Instant::from_std(std::time::Instant::now()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::{Arc, mpsc};

    fn paused() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    }

    const HOUR: Duration = Duration::from_secs(3600);

    /// A clock whose runtime's time was moved on by an hour.
    fn an_hour_on(runtime: &tokio::runtime::Runtime) -> Arc<RuntimeClock> {
        runtime.block_on(async {
            let clock = Arc::new(RuntimeClock::new());
            assert_eq!(clock.now(), Duration::ZERO);
            tokio::time::advance(HOUR).await;
            assert_eq!(clock.now(), HOUR);
            clock
        })
    }

    #[test]
    fn it_reads_its_runtimes_time_from_everywhere() {
        let runtime = paused();
        let clock = an_hour_on(&runtime);
        assert_eq!(clock.now(), HOUR, "outside the runtime");
        paused().block_on(async { assert_eq!(clock.now(), HOUR, "in another runtime") });
        std::thread::scope(|scope| {
            let other = scope.spawn(|| clock.now());
            assert_eq!(other.join().unwrap(), HOUR, "in another thread");
        });
        drop(runtime);
        assert_eq!(clock.now(), HOUR, "after the runtime's end");
    }

    #[test]
    fn it_runs_with_the_system_where_there_is_no_runtime() {
        let clock = RuntimeClock::new();
        let first = clock.now();
        std::thread::park_timeout(Duration::from_millis(2));
        assert!(clock.now() > first);
    }

    /// Asks the clock when it is dropped, as a guard does, and tells whether tokio's context was gone by then.
    struct Asking {
        clock: Arc<RuntimeClock>,
        told: mpsc::Sender<(bool, Duration)>,
    }

    impl Drop for Asking {
        fn drop(&mut self) {
            let gone = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
            self.told.send((gone, self.clock.now())).ok();
        }
    }

    #[test]
    fn a_guard_in_a_dying_thread_still_gets_the_right_time() {
        thread_local!(static KEPT: RefCell<Option<Asking>> = const { RefCell::new(None) });
        let runtime = paused();
        let clock = an_hour_on(&runtime);
        let (told, answers) = mpsc::channel();
        std::thread::spawn(move || {
            // Thread locals go in the reverse order of their first use: tokio's context before this one.
            KEPT.with(|kept| *kept.borrow_mut() = Some(Asking { clock, told }));
            let entered = runtime.enter();
            drop(entered);
        })
        .join()
        .unwrap();
        assert_eq!(answers.recv().unwrap(), (true, HOUR));
    }
}
