//! A Rust process beside the test's own: one that can be killed, or that takes part in the load.

use std::time::Duration;

use lockkeeper::{Keeper, Lease};
use lockkeeper_interop::holding::Kind;
use lockkeeper_interop::load::{self, Order};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["hold", url, lease, objects @ ..] => hold(url, lease, objects).await,
        ["load", url, process, file, time, seed, tasks, objects @ ..] => {
            let grants = load::run(Order {
                url: (*url).to_owned(),
                process: (*process).to_owned(),
                file: (*file).to_owned(),
                time: milliseconds(time),
                seed: seed.parse().expect("a seed"),
                tasks: tasks.parse().expect("a number of tasks"),
                objects: objects.iter().map(|text| (*text).to_owned()).collect(),
            })
            .await;
            println!("grants {grants}");
        }
        other => panic!("arguments: {other:?}"),
    }
}

fn milliseconds(text: &str) -> Duration {
    Duration::from_millis(text.parse().expect("a number of milliseconds"))
}

/// Holds objects, each written as `KIND:NAME`, by renewed leases until somebody kills the process.
async fn hold(url: &str, lease: &str, objects: &[&str]) {
    let keeper = Keeper::connect(url).await.expect("a server");
    let lease = Lease::renewed(milliseconds(lease));
    let mut holds = Vec::new();
    for object in objects {
        let (kind, name) = object.split_once(':').expect("a kind and a name");
        let kind: Kind = kind.parse().expect("a kind");
        holds.push(kind.acquire(&keeper, name, None, lease).await.expect("a grant"));
    }
    println!("held");
    std::future::pending::<()>().await;
}
