use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::holding::blocking_hold_methods;
use super::parking::block_on;
use crate::base::token::Token;
use crate::error::Error;
use crate::object::hold_handle::HoldHandle;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::turn::{Origin, Turn};

thread_local! {
    /// What this thread holds, for re-entry.
    static HELD: RefCell<Vec<Weak<Turn>>> = const { RefCell::new(Vec::new()) };
}

/// The turn that this thread has, if any. A name of a kind has one origin in a keeper as long as it is held.
pub(super) fn held_by_this_thread(origin: &Origin) -> Option<Arc<Turn>> {
    HELD.with_borrow(|held| {
        held.iter()
            .filter_map(Weak::upgrade)
            .find(|turn| turn.origin.is(origin))
    })
}

/// Makes a new hold this thread's.
pub(super) fn remember(turn: &Arc<Turn>) {
    HELD.with_borrow_mut(|held| {
        held.retain(|turn| turn.strong_count() > 0);
        held.push(Arc::downgrade(turn));
    });
}

pub(super) fn forget(turn: &Arc<Turn>) {
    HELD.with_borrow_mut(|held| held.retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(turn))));
}

/// The value that a thread holding a [`Mutex`](super::Mutex) has in hand; see [`lockkeeper::MutexGuard`](crate::MutexGuard).
///
/// It belongs to its thread:
///
/// ```compile_fail
/// let guard = lockkeeper::blocking::Keeper::embedded().mutex("a").lock().unwrap();
/// std::thread::spawn(move || drop(guard));
/// ```
#[must_use = "a guard that is not kept frees the lock at once"]
pub struct MutexGuard {
    guard: crate::MutexGuard,
    _of_this_thread: PhantomData<*const ()>,
}

impl MutexGuard {
    pub(super) const fn new(guard: crate::MutexGuard) -> Self {
        Self {
            guard,
            _of_this_thread: PhantomData,
        }
    }

    /// The guard of a hold that becomes this thread's.
    pub(super) fn remembered(guard: crate::MutexGuard) -> Self {
        remember(&guard.turn);
        Self::new(guard)
    }

    blocking_hold_methods!();

    /// The fencing token of this turn.
    #[must_use]
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// Makes the guard movable, and takes the hold out of this thread's re-entry: from now on this thread waits for it as
    /// others do.
    pub fn into_movable(self) -> MovableMutexGuard {
        forget(&self.guard.turn);
        MovableMutexGuard { guard: self.guard }
    }
}

impl fmt::Debug for MutexGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

/// A guard that may be given up by another thread than the one that locked.
#[derive(Debug)]
#[must_use = "a guard that is not kept frees the lock at once"]
pub struct MovableMutexGuard {
    guard: crate::MutexGuard,
}

impl MovableMutexGuard {
    /// Makes the hold the present thread's.
    pub fn into_thread(self) -> MutexGuard {
        MutexGuard::remembered(self.guard)
    }

    /// The same guard for async code.
    pub fn into_async(self) -> crate::MutexGuard {
        self.guard
    }

    /// Gives the lock up; see [`lockkeeper::MutexGuard::unlock`](crate::MutexGuard::unlock).
    ///
    /// # Errors
    /// Those of [`MutexGuard::unlock`].
    pub fn unlock(self) -> Result<Unlocked, Error> {
        let core = Arc::clone(self.guard.turn.core());
        block_on(&core, self.guard.unlock())?
    }
}
