//! Reading back what a server wrote: the proof of what really ran.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::RedisServer;
use crate::resp;

impl RedisServer {
    /// The commands of the append-only file in order, each with its arguments.
    ///
    /// A script's writes appear as the commands it ran, in `MULTI` and `EXEC` if there were several. The server
    /// writes the file before it replies, so every answered write is in it. A part that was cut off by a crash
    /// is left out.
    ///
    /// # Errors
    ///
    /// If there is no append-only file or it is not readable.
    pub fn append_only_commands(&self) -> io::Result<Vec<Vec<String>>> {
        let mut commands = Vec::new();
        for file in self.append_only_files()? {
            let bytes = fs::read(&file)?;
            let mut rest = bytes.as_slice();
            loop {
                // Lines with a hash sign are the server's own notes.
                if rest.first() == Some(&b'#') {
                    let end = rest
                        .iter()
                        .position(|byte| *byte == b'\n')
                        .map_or(rest.len(), |at| at + 1);
                    rest = &rest[end..];
                    continue;
                }
                let length = resp::request_length(rest)
                    .map_err(|_| io::Error::other(format!("{} is not a list of commands", file.display())))?;
                let Some(length) = length else { break };
                let words = resp::arguments(&rest[..length]);
                commands.push(
                    words
                        .iter()
                        .map(|word| String::from_utf8_lossy(word).into_owned())
                        .collect(),
                );
                rest = &rest[length..];
            }
        }
        Ok(commands)
    }

    /// The parts of the file, oldest first: one file before Redis 7, a folder with a manifest since.
    fn append_only_files(&self) -> io::Result<Vec<PathBuf>> {
        let folder = self.folder().join("appendonlydir");
        if !folder.exists() {
            return Ok(vec![self.folder().join("appendonly.aof")]);
        }
        let manifest = fs::read_to_string(folder.join("appendonly.aof.manifest"))?;
        // Lines read `file NAME seq NUMBER type KIND`; kind `h` is history, about to be deleted.
        Ok(manifest
            .lines()
            .filter_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                match words.as_slice() {
                    ["file", name, "seq", _, "type", "b" | "i", ..] => Some(folder.join(name)),
                    _ => None,
                }
            })
            .collect())
    }
}
