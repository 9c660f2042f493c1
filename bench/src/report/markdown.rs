//! The text for `bench/README.md`.

use std::fmt::Write;
use std::thread::available_parallelism;

use super::{HEADINGS, Table};
use crate::stage::Stage;

const INTRODUCTION: &str = "# Benchmark

Lockkeeper beside the bare driver, a peer, and a lock that never leaves the process: one run, one server that the
benchmark starts itself, every figure the median of rounds that the lines take in turn.

```sh
cargo run --release -p lockkeeper-bench                  # everything, some minutes
cargo run --release -p lockkeeper-bench -- --quick       # about a minute
cargo run --release -p lockkeeper-bench -- --only many-names --rounds 9
cargo run --release -p lockkeeper-bench -- --markdown > bench/README.md
```

It needs a `redis-server` in the path, or another server program named in `LOCKKEEPER_REDIS_SERVER`.

How to read it: times and rates depend on the machine and on what else it does, so look at the ratios. A ratio is the
median of the ratios of the rounds, each to the line named beside it. A dash stands where a line does not have the feature. The bare
driver sends Lockkeeper's own scripts with the same arguments over one multiplexed connection, with the same connection
settings, and nothing else.
";

pub(crate) fn render(stage: &Stage, tables: &[Table]) -> String {
    let mut text = INTRODUCTION.to_owned();
    let cores = available_parallelism().map_or(0, usize::from);
    let run = if stage.quick { "a quick run" } else { "a full run" };
    let _ = writeln!(
        text,
        "\nBelow: {run} on {cores} cores shared with other work, server and clients on the same machine over loopback, {}.",
        stage.server.version()
    );
    for table in tables {
        let _ = writeln!(text, "\n## {}\n\n{}\n", table.title, table.note);
        let _ = writeln!(text, "| {} |", HEADINGS.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(HEADINGS.len()));
        for row in &table.rows {
            let _ = writeln!(text, "| {} |", row.cells().join(" | "));
        }
    }
    text
}
