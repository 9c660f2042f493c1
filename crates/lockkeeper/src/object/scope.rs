use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};

use super::mutex::{Mutex, MutexGuard};
use super::options::Options;
use crate::error::Error;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::turn::Turn;

/// One logical caller of async code, for re-entry: made by [`Keeper::scope`](crate::Keeper::scope).
///
/// What this scope already holds it may lock again, at no cost and as often as it likes; the lock is freed when the last
/// of its guards is given up. Others, tasks of the same program included, wait as usual.
pub struct Scope {
    /// Told apart by their origins, since two keepers may have locks of the same name.
    held: StdMutex<Vec<Weak<Turn>>>,
}

impl Scope {
    pub(crate) fn new() -> Self {
        Self {
            held: StdMutex::default(),
        }
    }

    /// Acquires the lock, or enters it again if this scope holds it.
    ///
    /// An inner guard shares hold, deadline and token with the outer one.
    ///
    /// # Errors
    /// Those of [`Mutex::lock`]; on re-entry [`Error::Lost`] if the outer hold is lost (it is never acquired anew), and
    /// [`Error::InnerLease`] if the lease asked for is more than the outer one.
    ///
    /// # Cancelling
    /// As [`Mutex::lock`]; re-entry itself never waits.
    pub async fn lock(&self, mutex: &Mutex) -> Result<ScopedGuard<'_>, Error> {
        match self.inner(mutex)? {
            Some(guard) => Ok(guard),
            None => Ok(self.keep(mutex.lock().await?)),
        }
    }

    /// As [`lock`](Self::lock), without waiting.
    ///
    /// # Errors
    /// Those of [`Mutex::try_lock`], and of [`lock`](Self::lock) on re-entry.
    pub async fn try_lock(&self, mutex: &Mutex) -> Result<ScopedGuard<'_>, Error> {
        match self.inner(mutex)? {
            Some(guard) => Ok(guard),
            None => Ok(self.keep(mutex.try_lock().await?)),
        }
    }

    fn inner(&self, mutex: &Mutex) -> Result<Option<ScopedGuard<'_>>, Error> {
        let origin = mutex.origin()?;
        // All are taken out first: the last use of a turn must not end under the lock.
        let turns: Vec<_> = {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.iter().filter_map(Weak::upgrade).collect()
        };
        let turn = turns.into_iter().find(|turn| turn.origin.is(origin));
        match turn {
            Some(turn) => Ok(Some(ScopedGuard::new(self, reenter(turn, mutex.options())?))),
            None => Ok(None),
        }
    }

    fn keep(&self, guard: MutexGuard) -> ScopedGuard<'_> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|turn| turn.strong_count() > 0);
        held.push(Arc::downgrade(&guard.turn));
        drop(held);
        ScopedGuard::new(self, guard)
    }

    fn forget(&self, turn: &Arc<Turn>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(turn)));
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

/// An inner guard of a hold, if the hold can give what is asked for.
pub(crate) fn reenter(turn: Arc<Turn>, options: &Options) -> Result<MutexGuard, Error> {
    if let HoldState::Lost(reason) = turn.state() {
        return Err(Error::Lost(reason));
    }
    let (outer, inner) = (turn.hold.terms.lease, options.lease);
    let satisfied = outer.is_renewed() || (!inner.is_renewed() && inner.duration() <= outer.duration());
    if !satisfied {
        return Err(Error::InnerLease {
            inner: inner.duration(),
            outer: outer.duration(),
        });
    }
    Ok(MutexGuard::new(turn))
}

/// A guard that belongs to its scope and cannot leave it. It offers all that a [`MutexGuard`] does.
#[must_use = "a guard that is not kept frees the lock at once"]
pub struct ScopedGuard<'scope> {
    scope: &'scope Scope,
    guard: MutexGuard,
}

impl<'scope> ScopedGuard<'scope> {
    fn new(scope: &'scope Scope, guard: MutexGuard) -> Self {
        Self { scope, guard }
    }

    /// Makes the guard movable, and takes the hold out of the scope's re-entry: from now on this scope waits for it as
    /// others do.
    pub fn into_owned(self) -> MutexGuard {
        self.scope.forget(&self.guard.turn);
        self.guard
    }

    /// Gives the lock up; see [`MutexGuard::unlock`]. With other guards of the hold in this scope it stays held.
    ///
    /// # Errors
    /// Those of [`MutexGuard::unlock`].
    pub async fn unlock(self) -> Result<Unlocked, Error> {
        self.guard.unlock().await
    }
}

impl Deref for ScopedGuard<'_> {
    type Target = MutexGuard;

    fn deref(&self) -> &MutexGuard {
        &self.guard
    }
}

impl fmt::Debug for ScopedGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}
