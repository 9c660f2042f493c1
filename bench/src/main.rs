//! Measures Lockkeeper beside the bare driver and its peers, in one run against one server that it starts itself.
//!
//! `cargo run --release -p lockkeeper-bench` prints every figure with its ratio and says whether the goal is met.

mod arguments;
mod client;
mod line;
mod load;
mod processor;
mod race;
mod report;
mod samples;
mod stage;
mod work;

use clap::Parser;
use lockkeeper_testkit::RedisServer;

use arguments::{Arguments, Command};
use stage::Stage;
use work::Work;

fn main() {
    let arguments = Arguments::parse();
    if let Some(Command::Child { role }) = arguments.command {
        work::run_child(role);
        return;
    }
    let stage = Stage::new(RedisServer::start(), arguments.quick, arguments.rounds);
    let mut tables = Vec::new();
    for work in Work::ALL {
        if !arguments.includes(work.name()) {
            continue;
        }
        eprintln!("measuring: {}", work.name());
        let table = work.measure(&stage);
        if !arguments.markdown {
            println!("{}", report::terminal::render(&table));
        }
        tables.push(table);
    }
    if arguments.markdown {
        print!("{}", report::markdown::render(&stage, &tables));
    }
    stage.server.stop();
}
