//! What every engine and layout must do, chosen by a list: a case is written once and run on each stage.

mod blocking;
mod counting_semaphore;
mod election;
mod fair;
mod fenced;
mod latch;
mod mutex;
mod ownership;
mod periodic;
mod rwlock;
mod rwlock_reentry;
mod semaphore;
mod stage;
mod turns;
mod waiting;

use stage::Stage;

/// Runs each named case on every stage.
macro_rules! on_every_stage {
    ($($case:ident),* $(,)?) => {
        mod embedded_redisson { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::Stage::embedded(lockkeeper::Layout::Redisson)).await; }
        )* }
        mod embedded_plain { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::Stage::embedded(lockkeeper::Layout::Plain)).await; }
        )* }
        mod redis_redisson { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::Stage::redis(lockkeeper::Layout::Redisson).await).await; }
        )* }
        mod redis_plain { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::Stage::redis(lockkeeper::Layout::Plain).await).await; }
        )* }
    };
}
pub(crate) use on_every_stage;

/// Runs each named case on both engines, for objects that have one layout.
macro_rules! on_both_engines {
    ($($case:ident),* $(,)?) => {
        mod embedded { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::Stage::embedded(lockkeeper::Layout::Redisson)).await; }
        )* }
        mod redis { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::Stage::redis(lockkeeper::Layout::Redisson).await).await; }
        )* }
    };
}
pub(crate) use on_both_engines;
