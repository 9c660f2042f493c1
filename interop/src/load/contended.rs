//! The objects that the load fights for.

use crate::holding::Kind;

/// How many may hold an object at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Nobody else.
    One,
    /// Any number of readers, while nobody writes.
    Readers,
    /// So many.
    Permits(usize),
}

/// An object that the load fights for.
#[derive(Debug, Clone)]
pub struct Contended {
    /// How it is held.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// How many may hold it.
    pub limit: Limit,
}

impl Contended {
    /// Reads `KIND:NAME` or `KIND:NAME:PERMITS`; one for each way of using it, as readers and writers are two.
    ///
    /// # Panics
    ///
    /// If there is no such kind.
    #[must_use]
    pub fn read(text: &str) -> Vec<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let one = |word: &str, limit| Self {
            kind: word.parse().unwrap_or_else(|error| panic!("{text}: {error}")),
            name: parts[1].to_owned(),
            limit,
        };
        match parts[..] {
            ["rwlock", _] => vec![one("read", Limit::Readers), one("write", Limit::One)],
            [kind, _] => vec![one(kind, Limit::One)],
            [kind, _, permits] => {
                let permits = permits.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
                vec![one(kind, Limit::Permits(permits))]
            }
            _ => panic!("no object: {text}"),
        }
    }

    /// What it protects, as the history knows it: several names for one that is made of several.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.name.split('+').map(str::to_owned).collect()
    }
}
