//! `lockkeeper scripts`.

use std::io::{self, Write};

use lockkeeper::Error;
use lockkeeper::redis::{LuaScript, load_scripts, scripts as all_scripts};

use super::exit_for_output;
use super::server::{ask, nodes, resolve};
use crate::arguments::{ScriptsArguments, ScriptsTask, Server, ServerArguments};
use crate::exit::Exit;

pub(super) fn scripts(arguments: &ScriptsArguments) -> Exit {
    match &arguments.task {
        ScriptsTask::List { json } => exit_for_output(list(&mut io::stdout().lock(), &all_scripts(), *json)),
        ScriptsTask::Load(server) => load(server),
    }
}

fn list(out: &mut impl Write, scripts: &[LuaScript], json: bool) -> io::Result<()> {
    if json {
        let scripts = scripts
            .iter()
            .map(|script| serde_json::json!({ "name": script.name, "hash": script.hash, "text": script.text }));
        let scripts: Vec<_> = scripts.collect();
        return writeln!(out, "{}", serde_json::Value::from(scripts));
    }
    for script in scripts {
        writeln!(out, "{}  {}", script.hash, script.name)?;
    }
    Ok(())
}

fn load(arguments: &ServerArguments) -> Exit {
    let server = match resolve(arguments) {
        Ok(server) => server,
        Err(exit) => return exit,
    };
    match ask(load_everywhere(&server)) {
        Ok((scripts, servers)) => exit_for_output(writeln!(
            io::stdout().lock(),
            "{scripts} scripts are on {servers} {}",
            if servers == 1 { "server" } else { "servers" }
        )),
        Err(exit) => exit,
    }
}

/// Tells how many scripts were loaded, and into how many servers.
async fn load_everywhere(server: &Server) -> Result<(usize, usize), Error> {
    let nodes = nodes(server)?;
    let servers = nodes.len();
    let mut scripts = 0;
    for node in nodes {
        scripts = load_scripts(node).await?.len();
    }
    Ok((scripts, servers))
}
