//! `tokio::sync::Mutex`: what a lock costs that never leaves the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{Client, Lock};

#[derive(Debug, Default)]
pub(crate) struct Tokio(StdMutex<HashMap<String, TokioLock>>);

#[derive(Clone, Debug, Default)]
pub(crate) struct TokioLock(Arc<Mutex<()>>);

impl Client for Tokio {
    type Lock = TokioLock;

    fn lock_named(&self, name: &str) -> TokioLock {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.entry(name.to_owned()).or_default().clone()
    }
}

impl Lock for TokioLock {
    type Held = OwnedMutexGuard<()>;

    async fn take(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.0).lock_owned().await
    }

    async fn give_back(&self, held: OwnedMutexGuard<()>) {
        drop(held);
    }
}
