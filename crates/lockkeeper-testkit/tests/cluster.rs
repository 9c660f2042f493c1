//! A cluster comes up, moves slots and fails over.

use lockkeeper_testkit::RedisCluster;
use redis::cmd;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_serves_each_slot_by_its_master_and_fails_over() {
    let cluster = RedisCluster::start(3, true).await;
    let slot = cluster.slot("a").await;
    let index = cluster.first_master_of(slot);
    let _: String = cluster.master(index).query(cmd("SET").arg("a").arg(1)).await;
    cluster.fail_over(index).await;
    let value: i64 = cluster.replica(index).query(cmd("GET").arg("a")).await;
    assert_eq!(value, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_with_its_keys() {
    let cluster = RedisCluster::start(3, false).await;
    let slot = cluster.slot("a").await;
    let from = cluster.first_master_of(slot);
    let to = (from + 1) % 3;
    let (from, to) = (cluster.master(from), cluster.master(to));
    let _: String = from.query(cmd("SET").arg("a").arg(1)).await;
    cluster.begin_move(slot, from, to).await;
    cluster.end_move(slot, from, to).await;
    let value: i64 = to.query(cmd("GET").arg("a")).await;
    assert_eq!(value, 1);
}
