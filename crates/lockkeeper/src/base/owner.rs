use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// The text that marks one hold on the server: `uuid:number`.
///
/// Whoever knows it can free the lock, so `Debug` and `Display` show a short hash, never the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    #[cfg(test)]
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// The ids of a hold of permits.
    pub(crate) fn permits(&self) -> impl Iterator<Item = &str> {
        let text = &*self.0;
        (0..text.len() / PERMIT_DIGITS)
            .filter_map(move |place| text.get(place * PERMIT_DIGITS..(place + 1) * PERMIT_DIGITS))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The text with which the same caller writes under a read-write lock.
    pub(crate) fn writing(&self) -> Self {
        Self(format!("{}{WRITING}", self.0).into())
    }

    /// The text with which a writer of a read-write lock reads.
    pub(crate) fn reading(&self) -> Self {
        Self(self.0.strip_suffix(WRITING).unwrap_or(&self.0).into())
    }
}

/// Whether a text is that of a writer, of whichever peer; one in a transaction has more behind it.
pub(crate) fn is_writing(text: &str) -> bool {
    text.ends_with(WRITING) || text.contains(":write:")
}

/// What Redisson adds to the text of a writer.
const WRITING: &str = ":write";

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        write!(f, "{:08x}", hasher.finish() & 0xffff_ffff)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

/// The id of a permit is 16 random bytes, told as hex digits.
pub(crate) const PERMIT_DIGITS: usize = 32;

/// Makes the owner texts of one keeper. A forked child gets a UUID of its own, so that parent and child never share one.
pub(crate) struct OwnerSource {
    identity: Mutex<Identity>,
}

struct Identity {
    process: u32,
    uuid: Arc<str>,
}

impl OwnerSource {
    pub(crate) fn new() -> Self {
        Self {
            identity: Mutex::new(Identity::new(std::process::id())),
        }
    }

    /// A new owner text; the number is random bits of the system, since a counter would repeat in a clone.
    pub(crate) fn next(&self) -> Owner {
        let mut identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if identity.process != process {
            *identity = Identity::new(process);
        }
        // Of the 63 bits the highest is set: so each number has 19 digits, and in a line it shows whose waiter is a peer's.
        let number = u64::from_le_bytes(random_bytes()) >> 1 | 1 << 62;
        Owner(format!("{}:{number}", identity.uuid).into())
    }
}

impl OwnerSource {
    /// The owner text of a hold of so many permits: their ids, one behind the other.
    pub(crate) fn next_permits(&self, permits: u32) -> Owner {
        let mut text = String::with_capacity(PERMIT_DIGITS * permits as usize);
        for _ in 0..permits {
            text.push_str(&format!("{:032x}", u128::from_le_bytes(random_bytes())));
        }
        Owner(text.into())
    }
}

impl fmt::Debug for OwnerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerSource").finish_non_exhaustive()
    }
}

impl Identity {
    fn new(process: u32) -> Self {
        Self {
            process,
            uuid: uuid_version_4(random_bytes()).into(),
        }
    }
}

fn uuid_version_4(mut bytes: [u8; 16]) -> String {
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without the system's randomness two processes could share an owner text: stopping is the only safe answer.
    getrandom::fill(&mut bytes).expect("the operating system must provide random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_a_uuid_and_a_number() {
        let source = OwnerSource::new();
        let (first, second) = (source.next(), source.next());
        let (uuid, number) = first.as_str().split_once(':').unwrap();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(number.parse::<i64>().unwrap() >= 0);
        assert_ne!(first, second);
        assert!(second.as_str().starts_with(uuid));
    }

    #[test]
    fn a_forked_child_takes_a_new_uuid() {
        let source = OwnerSource::new();
        let parent = source.next();
        // What the child of a fork sees: the parent's memory under another process number.
        source.identity.lock().unwrap().process ^= 1;
        let child = source.next();
        assert_ne!(parent.as_str().split(':').next(), child.as_str().split(':').next());
    }

    #[test]
    fn debug_and_display_hide_the_text() {
        let owner = OwnerSource::new().next();
        let number = owner.as_str().split_once(':').unwrap().1;
        for shown in [format!("{owner:?}"), owner.to_string()] {
            assert!(
                !shown.contains(number) && !shown.contains(&owner.as_str()[..8]),
                "{shown}"
            );
        }
    }
}
