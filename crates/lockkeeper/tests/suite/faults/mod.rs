//! Faults between a keeper and one server: what other libraries were caught at, and what can go wrong by principle.
//! Each case runs on a real server, mostly behind a proxy that breaks one exact request or reply.

mod bed;
mod data;
mod election;
mod hands;
mod reach;
mod refusals;
mod resting;
mod rwlock;
mod scripts;
mod semaphores;
mod signals;
mod unclear;

/// Runs each named case in both layouts.
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
