//! The crate `rslock` as it comes: a waiter asks again after a random pause of up to 200 ms.

use std::sync::Arc;

use rslock::{LockGuard, LockManager};

use super::{Client, LEASE, Lock};

#[derive(Clone, Debug)]
pub(crate) struct Rslock(LockManager);

impl Rslock {
    pub(crate) fn connect(url: &str) -> Self {
        Self(LockManager::new(vec![url]))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RslockLock {
    manager: LockManager,
    name: Arc<str>,
}

impl Client for Rslock {
    type Lock = RslockLock;

    fn lock_named(&self, name: &str) -> RslockLock {
        RslockLock {
            manager: self.0.clone(),
            name: name.into(),
        }
    }
}

impl Lock for RslockLock {
    type Held = LockGuard;

    async fn take(&self) -> LockGuard {
        self.manager
            .acquire(self.name.as_bytes(), LEASE)
            .await
            .expect("rslock takes the lock")
    }

    async fn give_back(&self, held: LockGuard) {
        held.release().await;
    }
}
