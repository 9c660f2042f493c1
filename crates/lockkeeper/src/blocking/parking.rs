use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::Handle;
use tokio::task::coop;

use crate::error::Error;
use crate::service::core::Core;

/// Runs a future on this thread, parked while there is nothing to do; timers and connections are the keeper's own.
pub(crate) fn block_on<F: Future>(core: &Core, future: F) -> Result<F::Output, Error> {
    block_on_with(core, future, |future| future).map_err(|(_, error)| error)
}

/// The same with a value that goes into the future, or comes back if this thread must not block.
pub(super) fn block_on_with<T, F: Future>(
    core: &Core,
    value: T,
    work: impl FnOnce(T) -> F,
) -> Result<F::Output, (T, Error)> {
    if drives_async_tasks() {
        return Err((value, Error::BlockingInAsync));
    }
    let _context = core.executor.handle().enter();
    Ok(park_on(work(value)))
}

/// As [`block_on`], before there is a keeper: on a small runtime that ends with the call.
pub(super) fn block_on_alone<F: Future>(future: F) -> Result<F::Output, Error> {
    if drives_async_tasks() {
        return Err(Error::BlockingInAsync);
    }
    let thread = crate::service::executor::Executor::thread_or_panic();
    let _context = thread.handle().enter();
    Ok(park_on(future))
}

fn park_on<F: Future>(future: F) -> F::Output {
    let parked = Arc::new(Parked {
        thread: thread::current(),
        woken: AtomicBool::new(false),
    });
    let waker = Waker::from(Arc::clone(&parked));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        while !parked.woken.swap(false, Ordering::AcqRel) {
            thread::park();
        }
    }
}

struct Parked {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Whether this code runs inside a poll of a tokio runtime, where blocking would stop the other tasks of the thread.
///
/// Such a poll has a budget of steps, `spawn_blocking` and `block_in_place` have none: that is how the two are told apart.
fn drives_async_tasks() -> bool {
    /// More than tokio's budget for one poll.
    const STEPS: usize = 256;
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    // Each step that is not marked as progress is given back when it is dropped.
    let mut steps = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        match coop::poll_proceed(&mut context) {
            Poll::Ready(step) => steps.push(step),
            Poll::Pending => {
                give_back(steps);
                return true;
            }
        }
    }
    give_back(steps);
    false
}

/// Undoes steps in the opposite order, so that the budget ends as it was.
fn give_back(mut steps: Vec<coop::RestoreOnPending>) {
    while let Some(step) = steps.pop() {
        drop(step);
    }
}
