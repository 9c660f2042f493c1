use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::engine::Kind;

/// What a keeper has one of for each kind and name, for as long as somebody uses it.
#[derive(Debug)]
pub(crate) struct Register<T> {
    entries: Mutex<Entries<T>>,
}

type Entries<T> = HashMap<(Kind, Arc<str>), Weak<T>>;

impl<T> Default for Register<T> {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
        }
    }
}

impl<T> Register<T> {
    pub(crate) fn get_or_make(&self, kind: Kind, name: &Arc<str>, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, Arc::clone(name));
        if let Some(entry) = entries.get(&key).and_then(Weak::upgrade) {
            return entry;
        }
        let entry = make();
        entries.insert(key, Arc::downgrade(&entry));
        entry
    }

    /// Forgets an entry that nobody uses any more.
    pub(crate) fn forget(&self, kind: Kind, name: &Arc<str>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, Arc::clone(name));
        // A new one may have taken the place while the old one was going.
        if entries.get(&key).is_some_and(|entry| entry.strong_count() == 0) {
            entries.remove(&key);
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().filter_map(Weak::upgrade).collect()
    }
}
