//! The lives of holds and of those who hold them: renewal, loss, pauses, crashes, cancelled calls, hand-over.
//!
//! Each test acts one case out on a real server, with a second process where a crash or a pause is the point.
//! `tests/README.md` tells which case is which test. The long run of [`mixed`] can be made longer:
//!
//! ```sh
//! LOCKKEEPER_SOAK_SECONDS=600 cargo test -p lockkeeper --test suite lives::mixed -- --nocapture
//! ```

mod abandoned;
mod cancelled;
mod clocks;
mod election;
mod ends_of_process;
mod hand_over;
mod input;
mod kinds;
mod late_grants;
mod mixed;
mod ownership;
mod pauses;
mod periodic;
mod renewal;
mod stage;
mod worker;

/// Runs each named case in both layouts on a server of its own.
macro_rules! in_both_layouts {
    ($($case:ident),* $(,)?) => {
        mod redisson { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(lockkeeper::Layout::Redisson).await; }
        )* }
        mod plain { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(lockkeeper::Layout::Plain).await; }
        )* }
    };
}
use in_both_layouts;
