use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

/// Where a keeper's background work runs.
///
/// For Redis that is a thread of its own, so that neither blocking user code nor a finished runtime can starve renewal
/// and clean-up. The embedded engine has nothing to starve: it uses the runtime it was made in, whose clock may be paused.
#[derive(Debug)]
pub(crate) struct Executor {
    handle: Handle,
    stop: Option<Arc<Notify>>,
}

impl Executor {
    /// A thread with a runtime of its own; it ends when the executor is dropped.
    pub(crate) fn thread() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        thread::Builder::new()
            .name("lockkeeper".to_owned())
            .spawn(move || runtime.block_on(stopped.notified()))?;
        Ok(Self {
            handle,
            stop: Some(stop),
        })
    }

    /// As [`thread`](Self::thread), for callers that have no error to give.
    ///
    /// # Panics
    /// If the system cannot start a thread, as `std::thread::spawn` does.
    pub(crate) fn thread_or_panic() -> Self {
        match Self::thread() {
            Ok(executor) => executor,
            Err(error) => panic!("cannot start the keeper's thread: {error}"),
        }
    }

    /// The runtime of the caller.
    pub(crate) fn shared(handle: Handle) -> Self {
        Self { handle, stop: None }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(work));
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(stop) = &self.stop {
            stop.notify_one();
        }
    }
}
