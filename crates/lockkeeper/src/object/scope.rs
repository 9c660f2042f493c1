use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};

use super::holding::unlock;
use super::mutex::{Mutex, MutexGuard};
use super::options::Options;
use super::rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard, read_inside, write_inside};
use crate::error::Error;
use crate::service::hold::HoldState;
use crate::service::release::Unlocked;
use crate::service::turn::{Origin, Turn};

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
            None => Ok(self.keep(mutex.lock().await?.turn, MutexGuard::new)),
        }
    }

    /// As [`lock`](Self::lock), without waiting.
    ///
    /// # Errors
    /// Those of [`Mutex::try_lock`], and of [`lock`](Self::lock) on re-entry.
    pub async fn try_lock(&self, mutex: &Mutex) -> Result<ScopedGuard<'_>, Error> {
        match self.inner(mutex)? {
            Some(guard) => Ok(guard),
            None => Ok(self.keep(mutex.try_lock().await?.turn, MutexGuard::new)),
        }
    }

    /// Comes in as a reader, or shares the hold if this scope reads or writes already; a writer that waits does not stop it.
    ///
    /// A guard that shares a write hold keeps that hold, and so keeps others out, for as long as it lives.
    ///
    /// # Errors
    /// Those of [`RwLock::read`], and of [`lock`](Self::lock) on re-entry.
    ///
    /// # Cancelling
    /// As [`RwLock::read`]; re-entry itself never waits.
    pub async fn read(&self, rwlock: &RwLock) -> Result<ScopedGuard<'_, RwLockReadGuard>, Error> {
        match read_inside(rwlock, |origin| self.held(origin))? {
            Some(turn) => Ok(self.share(turn, RwLockReadGuard::new)),
            None => Ok(self.keep(rwlock.read().await?.turn, RwLockReadGuard::new)),
        }
    }

    /// Comes in as the writer, or shares the hold if this scope writes already.
    ///
    /// # Errors
    /// Those of [`RwLock::write`], and of [`lock`](Self::lock) on re-entry; [`Error::WouldWaitForItself`], at once, if this scope
    /// reads: [`RwLockReadGuard::try_upgrade`] is the way from reading to writing.
    ///
    /// # Cancelling
    /// As [`RwLock::write`]; re-entry itself never waits.
    pub async fn write(&self, rwlock: &RwLock) -> Result<ScopedGuard<'_, RwLockWriteGuard>, Error> {
        match write_inside(rwlock, |origin| self.held(origin))? {
            Some(turn) => Ok(self.share(turn, RwLockWriteGuard::new)),
            None => Ok(self.keep(rwlock.write().await?.turn, RwLockWriteGuard::new)),
        }
    }

    fn inner(&self, mutex: &Mutex) -> Result<Option<ScopedGuard<'_>>, Error> {
        let turn = self.held(mutex.origin()?);
        let turn = turn.map(|turn| check_reentry(turn, mutex.options())).transpose()?;
        Ok(turn.map(|turn| self.share(turn, MutexGuard::new)))
    }

    /// The turn that this scope has there, if any.
    fn held(&self, origin: &Origin) -> Option<Arc<Turn>> {
        // All are taken out first: the last use of a turn must not end under the lock.
        let turns: Vec<_> = {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.iter().filter_map(Weak::upgrade).collect()
        };
        turns.into_iter().find(|turn| turn.origin.is(origin))
    }

    /// A guard of a new hold, which becomes this scope's.
    fn keep<G>(&self, turn: Arc<Turn>, guard: impl FnOnce(Arc<Turn>) -> G) -> ScopedGuard<'_, G> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|turn| turn.strong_count() > 0);
        held.push(Arc::downgrade(&turn));
        drop(held);
        self.share(turn, guard)
    }

    /// One more guard of a hold that is this scope's.
    fn share<G>(&self, turn: Arc<Turn>, guard: impl FnOnce(Arc<Turn>) -> G) -> ScopedGuard<'_, G> {
        ScopedGuard {
            scope: self,
            turn: Arc::downgrade(&turn),
            guard: guard(turn),
        }
    }

    fn forget(&self, turn: &Weak<Turn>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|known| !known.ptr_eq(turn));
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

/// The same turn, if its hold can give what is asked for.
pub(crate) fn check_reentry(turn: Arc<Turn>, options: &Options) -> Result<Arc<Turn>, Error> {
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
    Ok(turn)
}

/// A guard that belongs to its scope and cannot leave it. It offers all that the guard inside does.
#[must_use = "a guard that is not kept frees the lock at once"]
pub struct ScopedGuard<'scope, G = MutexGuard> {
    scope: &'scope Scope,
    guard: G,
    /// The guard's own.
    turn: Weak<Turn>,
}

impl<G> ScopedGuard<'_, G> {
    /// Makes the guard movable, and takes the hold out of the scope's re-entry: from now on this scope waits for it as
    /// others do.
    pub fn into_owned(self) -> G {
        self.scope.forget(&self.turn);
        self.guard
    }

    /// Gives the lock up; see [`MutexGuard::unlock`]. With other guards of the hold in this scope it stays held.
    ///
    /// # Errors
    /// Those of [`MutexGuard::unlock`].
    pub async fn unlock(self) -> Result<Unlocked, Error> {
        let turn = self.turn.upgrade();
        drop(self.guard);
        match turn {
            Some(turn) => unlock(turn).await,
            None => Err(Error::NotHeld),
        }
    }
}

impl<G> Deref for ScopedGuard<'_, G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.guard
    }
}

impl<G: fmt::Debug> fmt::Debug for ScopedGuard<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}
