use lockkeeper::{Error, Layout, Unlocked};

use super::{Stage, on_both_engines};

on_both_engines!(
    fenced_locks_exclude_and_their_tokens_rise,
    a_plain_mutex_and_a_fenced_one_of_a_name_share_the_lock_and_the_order_of_tokens,
    the_plain_layout_has_no_fenced_mutex,
    a_spin_mutex_excludes_and_waits_by_asking,
);

async fn fenced_locks_exclude_and_their_tokens_rise(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let mut last = None;
    for round in 0..10 {
        let keeper = if round % 2 == 0 { &first } else { &second };
        let guard = keeper.fenced_mutex("ledger").lock().await.unwrap();
        assert!(matches!(
            first.fenced_mutex("ledger").try_lock().await,
            Err(Error::Busy { .. })
        ));
        assert!(last < Some(guard.token()), "{last:?} then {:?}", guard.token());
        last = Some(guard.token());
        assert_eq!(first.inspect("ledger").await.unwrap().token, last);
        assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    }
}

async fn a_plain_mutex_and_a_fenced_one_of_a_name_share_the_lock_and_the_order_of_tokens(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let mut last = None;
    for round in 0..10 {
        let (mutex, other) = (first.mutex("both"), second.fenced_mutex("both"));
        let (mutex, other) = if round % 2 == 0 { (mutex, other) } else { (other, mutex) };
        let guard = mutex.lock().await.unwrap();
        assert!(matches!(other.try_lock().await, Err(Error::Busy { .. })));
        assert!(last < Some(guard.token()), "{last:?} then {:?}", guard.token());
        last = Some(guard.token());
        guard.unlock().await.unwrap();
    }
}

async fn the_plain_layout_has_no_fenced_mutex(stage: Stage) {
    let mutex = stage.keeper().await.fenced_mutex("a").layout(Layout::Plain);
    assert!(matches!(
        mutex.try_lock().await,
        Err(Error::NoSuchLayout { kind: "fenced mutex" })
    ));
}

async fn a_spin_mutex_excludes_and_waits_by_asking(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let guard = first.spin_mutex("spin").lock().await.unwrap();
    assert!(matches!(
        second.spin_mutex("spin").try_lock().await,
        Err(Error::Busy { .. })
    ));
    assert!(matches!(second.mutex("spin").try_lock().await, Err(Error::Busy { .. })));
    let waiting = tokio::spawn(async move { second.spin_mutex("spin").lock().await });
    tokio::task::yield_now().await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    let guard = super::stage::soon("the spinning waiter", waiting)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}
