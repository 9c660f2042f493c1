use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::time::Sleep;

use super::turn::Turn;
use super::{LocalQueue, Request};
use crate::base::clock::Moment;
use crate::error::Error;
use crate::service::waiting::sleep_until;

/// One local caller in the queue, and the slot into which its turn is put.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(super) request: Request,
    /// Attempts at the server made for this waiter while it was the head.
    pub(super) attempts: AtomicU32,
    slot: Mutex<Slot>,
}

#[derive(Debug)]
enum Slot {
    Waiting(Option<Waker>),
    Granted(Arc<Turn>),
    Failed(Error),
    /// The turn lay there for too long and was passed on.
    Evicted,
    /// The outcome was taken, or the caller has gone.
    Gone,
}

impl Waiter {
    pub(super) fn new(request: Request, attempts: u32) -> Arc<Self> {
        Arc::new(Self {
            request,
            attempts: AtomicU32::new(attempts),
            slot: Mutex::new(Slot::Waiting(None)),
        })
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more attempt made for this waiter and tells how many there were.
    pub(super) fn count_attempt(&self) -> u32 {
        self.attempts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Puts a turn into the slot and returns whom to wake; gives the turn back if nobody waits here any more.
    pub(super) fn grant(&self, turn: Arc<Turn>) -> Result<Option<Waker>, Arc<Turn>> {
        let mut slot = self.slot();
        match &mut *slot {
            Slot::Waiting(waker) => {
                let waker = waker.take();
                *slot = Slot::Granted(turn);
                Ok(waker)
            }
            _ => Err(turn),
        }
    }

    /// Ends the wait with an error.
    pub(super) fn fail(&self, error: Error) {
        let mut slot = self.slot();
        if let Slot::Waiting(waker) = &mut *slot {
            let waker = waker.take();
            *slot = Slot::Failed(error);
            drop(slot);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Takes back a turn that was not taken.
    pub(super) fn evict(&self) -> Option<Arc<Turn>> {
        let mut slot = self.slot();
        if matches!(*slot, Slot::Granted(_))
            && let Slot::Granted(turn) = std::mem::replace(&mut *slot, Slot::Evicted)
        {
            return Some(turn);
        }
        None
    }

    /// Whether a turn lies in the slot and waits to be taken.
    pub(super) fn is_unclaimed(&self) -> bool {
        matches!(*self.slot(), Slot::Granted(_))
    }

    fn leave(&self) -> Slot {
        std::mem::replace(&mut *self.slot(), Slot::Gone)
    }
}

/// How a wait in the queue ended.
#[derive(Debug)]
pub(super) enum Waited {
    Granted(Arc<Turn>),
    Failed(Error),
    Evicted,
    TimedOut,
}

/// The wait of one caller. Dropping it leaves the queue; a turn that was just granted is passed on.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    queue: &'a Arc<LocalQueue>,
    waiter: Arc<Waiter>,
    deadline: Option<Moment>,
    sleep: Option<Pin<Box<Sleep>>>,
    done: bool,
}

impl<'a> Wait<'a> {
    pub(super) fn new(queue: &'a Arc<LocalQueue>, waiter: Arc<Waiter>, deadline: Option<Moment>) -> Self {
        Self {
            queue,
            waiter,
            deadline,
            sleep: None,
            done: false,
        }
    }

    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = self.deadline else {
            return false;
        };
        loop {
            if self.queue.core.clock_now() >= deadline {
                return true;
            }
            let sleep = self
                .sleep
                .get_or_insert_with(|| Box::pin(sleep_until(&self.queue.core, deadline)));
            if sleep.as_mut().poll(cx).is_pending() {
                return false;
            }
            // The timer only wakes; if the clock says that there is time left, sleep on.
            self.sleep = None;
        }
    }

    fn take(&mut self) -> Option<Waited> {
        let outcome = match self.waiter.leave() {
            Slot::Granted(turn) => {
                turn.hold.set_claimed(true);
                Waited::Granted(turn)
            }
            Slot::Failed(error) => Waited::Failed(error),
            Slot::Evicted => Waited::Evicted,
            Slot::Waiting(_) | Slot::Gone => return None,
        };
        self.done = true;
        Some(outcome)
    }
}

impl Future for Wait<'_> {
    type Output = Waited;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Waited> {
        // A task that always finds its turn ready must still let its neighbours run.
        let progress = ready!(tokio::task::coop::poll_proceed(cx));
        {
            let mut slot = self.waiter.slot();
            if let Slot::Waiting(waker) = &mut *slot {
                if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
                drop(slot);
                if !self.is_over(cx) {
                    return Poll::Pending;
                }
            }
        }
        progress.made_progress();
        if let Some(waited) = self.take() {
            return Poll::Ready(waited);
        }
        self.done = true;
        self.queue.leave(&self.waiter);
        Poll::Ready(Waited::TimedOut)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !self.done {
            // A granted turn ends when it is dropped here, which passes it on.
            drop(self.waiter.leave());
            self.queue.leave(&self.waiter);
        }
    }
}
