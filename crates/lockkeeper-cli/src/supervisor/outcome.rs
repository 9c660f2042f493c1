//! One value from another thread to the supervisor.

use super::waker::Waker;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// The giving end. Dropped without [`keep`](Self::keep), it makes the wait end with [`Waited::Gone`].
#[derive(Debug)]
pub struct Promise<T> {
    // Taken on drop, so that the wake comes after the channel was closed.
    sender: Option<Sender<T>>,
    waker: Waker,
}

/// The receiving end.
#[derive(Debug)]
pub struct Outcome<T>(Receiver<T>);

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Waited<T> {
    /// With what was waited for.
    Done(T),
    /// By this signal.
    Interrupted(i32),
    /// It can no longer come: the promise was dropped, or the hold was lost.
    Gone,
}

pub(super) fn promise<T>(waker: Waker) -> (Promise<T>, Outcome<T>) {
    let (sender, receiver) = channel();
    (
        Promise {
            sender: Some(sender),
            waker,
        },
        Outcome(receiver),
    )
}

impl<T> Promise<T> {
    /// Gives the value. It comes back if nobody waits any more, so that a lock can be given back.
    ///
    /// # Errors
    ///
    /// The value, when the other end was dropped.
    pub fn keep(self, value: T) -> Result<(), T> {
        match &self.sender {
            Some(sender) => sender.send(value).map_err(|refused| refused.0),
            None => Err(value),
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.sender = None;
        self.waker.wake();
    }
}

impl<T> Outcome<T> {
    pub(super) fn look(&self) -> Option<Waited<T>> {
        match self.0.try_recv() {
            Ok(value) => Some(Waited::Done(value)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Waited::Gone),
        }
    }
}
