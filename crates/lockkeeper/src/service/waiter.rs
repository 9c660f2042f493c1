use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::time::Sleep;

use super::core::Core;
use super::request::Request;
use super::turn::Turn;
use super::waiting::sleep_until;
use crate::base::clock::Moment;
use crate::error::Error;

/// Where callers of one process wait.
pub(crate) trait Station {
    fn core(&self) -> &Arc<Core>;

    /// A caller goes away.
    fn leave(&self, waiter: &Arc<Waiter>);
}

/// One local caller in line, and the slot into which its turn is put.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) request: Request,
    /// Attempts at the server made for this waiter while it was the head.
    attempts: AtomicU32,
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
    pub(crate) fn new(request: Request, attempts: u32) -> Arc<Self> {
        Arc::new(Self {
            request,
            attempts: AtomicU32::new(attempts),
            slot: Mutex::new(Slot::Waiting(None)),
        })
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many attempts were made for this waiter.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// Counts one more attempt made for this waiter and tells how many there were.
    pub(crate) fn count_attempt(&self) -> u32 {
        self.attempts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Puts a turn into the slot and returns whom to wake; gives the turn back if nobody waits here any more.
    pub(crate) fn grant(&self, turn: Arc<Turn>) -> Result<Option<Waker>, Arc<Turn>> {
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
    pub(crate) fn fail(&self, error: Error) {
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

    /// Ends the wait without an outcome: the caller begins anew.
    pub(crate) fn send_back(&self) {
        let mut slot = self.slot();
        if let Slot::Waiting(waker) = &mut *slot {
            let waker = waker.take();
            *slot = Slot::Evicted;
            drop(slot);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Takes back a turn that was not taken.
    pub(crate) fn evict(&self) -> Option<Arc<Turn>> {
        let mut slot = self.slot();
        if matches!(*slot, Slot::Granted(_))
            && let Slot::Granted(turn) = std::mem::replace(&mut *slot, Slot::Evicted)
        {
            return Some(turn);
        }
        None
    }

    /// Whether a turn lies in the slot and waits to be taken.
    pub(crate) fn is_unclaimed(&self) -> bool {
        matches!(*self.slot(), Slot::Granted(_))
    }

    fn leave(&self) -> Slot {
        std::mem::replace(&mut *self.slot(), Slot::Gone)
    }
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Waited {
    Granted(Arc<Turn>),
    Failed(Error),
    Evicted,
    TimedOut,
}

/// The wait of one caller. Dropping it leaves the line; a turn that was just granted is passed on.
#[derive(Debug)]
pub(crate) struct Wait<'a, S: Station> {
    station: &'a S,
    waiter: Arc<Waiter>,
    deadline: Option<Moment>,
    sleep: Option<Pin<Box<Sleep>>>,
    done: bool,
}

impl<'a, S: Station> Wait<'a, S> {
    pub(crate) fn new(station: &'a S, waiter: Arc<Waiter>, deadline: Option<Moment>) -> Self {
        Self {
            station,
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
            if self.station.core().clock_now() >= deadline {
                return true;
            }
            let sleep = self
                .sleep
                .get_or_insert_with(|| Box::pin(sleep_until(self.station.core(), deadline)));
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

impl<S: Station> Future for Wait<'_, S> {
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
        self.station.leave(&self.waiter);
        Poll::Ready(Waited::TimedOut)
    }
}

impl<S: Station> Drop for Wait<'_, S> {
    fn drop(&mut self) {
        if !self.done {
            // A granted turn ends when it is dropped here, which passes it on.
            drop(self.waiter.leave());
            self.station.leave(&self.waiter);
        }
    }
}
