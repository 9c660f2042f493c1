use std::fmt;

/// A fencing token: the number that a protected resource compares, so that a late write of a former holder is refused.
///
/// Tokens of one name strictly rise in the order of grants, whichever process is granted. They follow the server's time
/// in microseconds, so they keep rising when the counter is lost. Store the highest token seen beside the data and accept
/// a write only if its token is not lower.
///
/// ```
/// # tokio_test_like(async {
/// let keeper = lockkeeper::Keeper::embedded();
/// let first = keeper.mutex("report").lock().await?.token();
/// let second = keeper.mutex("report").lock().await?.token();
/// assert!(second > first);
/// # Ok::<(), lockkeeper::Error>(()) });
/// # fn tokio_test_like<F: Future<Output = Result<(), lockkeeper::Error>>>(work: F) {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work).unwrap();
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    pub(crate) const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number itself, below 2^53, so that it is exact in every language and database.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
