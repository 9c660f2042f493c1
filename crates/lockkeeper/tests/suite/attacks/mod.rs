//! Orderings and misuses that a reader of the source would try in order to break it.

mod closing;
mod handles;
mod outages;
mod polling;
mod wakers;

use std::time::Duration;

/// Long enough for anything that is to happen, short enough to fail a hung test.
const SOON: Duration = Duration::from_secs(10);

/// Fails instead of hanging.
async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("still waiting for: {what}"),
    }
}
