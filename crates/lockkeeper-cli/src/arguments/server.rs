//! Which server, and its password: from a file or the environment, never in `ps`, logs or errors.

use clap::Args;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// Holds the password, out of sight of `ps`.
pub const PASSWORD_VARIABLE: &str = "LOCKKEEPER_PASSWORD";
const URL_OPTIONS: [&str; 2] = ["--url", "--redis"];

/// The options that name a server.
#[derive(Args)]
pub struct ServerArguments {
    /// The server's address.
    #[arg(
        long,
        help = "The server's address: redis[s]://[user@]host[:port][/database][?tls-ca=FILE..], unix:///path",
        env = "LOCKKEEPER_URL",
        hide_env_values = true,
        value_name = "URL",
        default_value = "redis://127.0.0.1:6379"
    )]
    pub url: String,

    /// A file whose first line is the server's password (or set LOCKKEEPER_PASSWORD)
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

impl fmt::Debug for ServerArguments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerArguments")
            .field("password_file", &self.password_file)
            .finish_non_exhaustive()
    }
}

impl ServerArguments {
    /// The server, with its password from the file, else the environment, else the address.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is empty, or the address is not understood. Never repeats the address.
    pub fn resolve(&self) -> Result<Server, ServerError> {
        Server::resolve(&self.url, self.password_file.as_deref())
    }
}

/// A password. Prints as dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, to be handed to the server and to nothing else.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("...")
    }
}

/// A server's address and password, kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The address without a password: safe to print.
    pub url: String,
    /// The password, if there is one.
    pub password: Option<Secret>,
}

/// Why there is no server to speak to. Never contains the address or the password.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The password file cannot be used.
    #[error("cannot read the password file {}: {problem}", path.display())]
    PasswordFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        problem: std::io::Error,
    },
    /// The address is not understood.
    #[error(
        "the server's address is not understood; it looks like redis://host:6379/0 \
         (in a password, write characters such as / and @ as %2F and %40, or use LOCKKEEPER_PASSWORD)"
    )]
    Address,
}

impl Server {
    /// The server at this address, with its password from the file, else the environment, else the address.
    ///
    /// # Errors
    ///
    /// As for [`ServerArguments::resolve`].
    pub fn resolve(address: &str, password_file: Option<&Path>) -> Result<Self, ServerError> {
        let (url, inside) = split_password(address).ok_or(ServerError::Address)?;
        let password = match password_file {
            Some(path) => Some(read_password(path)?),
            None => std::env::var(PASSWORD_VARIABLE)
                .ok()
                .filter(|text| !text.is_empty())
                .map(Secret)
                .or(inside),
        };
        Ok(Self { url, password })
    }
}

fn read_password(path: &Path) -> Result<Secret, ServerError> {
    let refused = |problem| ServerError::PasswordFile {
        path: path.to_owned(),
        problem,
    };
    let text = std::fs::read_to_string(path).map_err(refused)?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Secret(line.to_owned())),
        _ => Err(refused(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "its first line is empty",
        ))),
    }
}

/// Takes passwords out of the addresses on a command line, so that the program can start itself again without
/// them. `None` when there is nothing to hide.
#[must_use]
pub fn hide_passwords(words: &[OsString]) -> Option<(Vec<OsString>, Secret)> {
    let mut found = None;
    let mut after_option = false;
    let mut ours = true;
    let clean = words.iter().map(|word| {
        ours &= word != "--";
        let is_value = std::mem::replace(
            &mut after_option,
            ours && URL_OPTIONS.iter().any(|option| word == option),
        );
        let Some(text) = word.to_str().filter(|_| ours) else {
            return word.clone();
        };
        let (option, address) = match text.split_once('=') {
            _ if is_value => ("", text),
            Some((option, address)) if URL_OPTIONS.contains(&option) => (option, address),
            _ => return word.clone(),
        };
        match split_password(address) {
            Some((url, Some(password))) => {
                found = Some(password);
                if option.is_empty() {
                    url.into()
                } else {
                    format!("{option}={url}").into()
                }
            }
            _ => word.clone(),
        }
    });
    let clean = clean.collect();
    found.map(|password| (clean, password))
}

impl AsRef<OsStr> for Secret {
    fn as_ref(&self) -> &OsStr {
        self.0.as_ref()
    }
}

/// The address without its password, and the password. `None` when the address is malformed.
fn split_password(address: &str) -> Option<(String, Option<Secret>)> {
    let (scheme, rest) = address.split_once(':')?;
    if scheme.ends_with("unix") {
        return split_query(address);
    }
    let rest = rest.strip_prefix("//")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let Some((person, host)) = authority.rsplit_once('@') else {
        // An @ further on means that a raw character of a password cut the host part short.
        return (!tail.contains('@')).then(|| (address.to_owned(), None));
    };
    let Some((user, password)) = person.split_once(':') else {
        return Some((address.to_owned(), None));
    };
    let user = if user.is_empty() {
        String::new()
    } else {
        format!("{user}@")
    };
    Some((format!("{scheme}://{user}{host}{tail}"), Some(decoded(password)?)))
}

/// Unix sockets carry the password in the query.
fn split_query(address: &str) -> Option<(String, Option<Secret>)> {
    let Some((path, query)) = address.split_once('?') else {
        return Some((address.to_owned(), None));
    };
    let mut password = None;
    let mut kept = Vec::new();
    for pair in query.split('&') {
        match pair.strip_prefix("pass=") {
            Some(value) => password = Some(decoded(value)?),
            None => kept.push(pair),
        }
    }
    let url = if kept.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{}", kept.join("&"))
    };
    Some((url, password))
}

/// Resolves %-escapes.
fn decoded(text: &str) -> Option<Secret> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().map(Secret)
}

#[cfg(test)]
mod tests {
    use super::{Secret, Server, ServerArguments, hide_passwords, read_password, split_password};
    use std::ffi::OsString;

    fn split(address: &str) -> Option<(String, Option<String>)> {
        split_password(address).map(|(url, password)| (url, password.map(|secret| secret.0)))
    }

    #[test]
    fn the_password_is_taken_out_of_the_address() {
        let table = [
            ("redis://host:6379/3", "redis://host:6379/3", None),
            ("redis://user@host", "redis://user@host", None),
            ("redis://:canary@host:1/2", "redis://host:1/2", Some("canary")),
            (
                "rediss://user:ca%40n%2Fary@host/?x=1",
                "rediss://user@host/?x=1",
                Some("ca@n/ary"),
            ),
            ("redis://user:a:b@host", "redis://user@host", Some("a:b")),
            (
                "unix:///run/redis.sock?db=1&pass=canary",
                "unix:///run/redis.sock?db=1",
                Some("canary"),
            ),
            (
                "redis+unix:///run/r.sock?pass=canary",
                "redis+unix:///run/r.sock",
                Some("canary"),
            ),
            ("unix:/run/r.sock", "unix:/run/r.sock", None),
        ];
        for (address, url, password) in table {
            assert_eq!(
                split(address),
                Some((url.to_owned(), password.map(str::to_owned))),
                "{address}"
            );
        }
    }

    #[test]
    fn malformed_addresses_are_refused_without_being_repeated() {
        for address in [
            "canary",
            "redis:canary",
            "redis://:can/ary@host",
            "redis://:canary%4@host",
        ] {
            let refusal = Server::resolve(address, None).expect_err(address).to_string();
            assert!(!refusal.contains("ary"), "{refusal}");
        }
    }

    #[test]
    fn debug_output_hides_the_password() {
        let arguments = ServerArguments {
            url: "redis://:canary@host".to_owned(),
            password_file: None,
        };
        assert!(!format!("{arguments:?}").contains("canary"));
        let server = Server {
            url: "redis://host".to_owned(),
            password: Some(Secret("canary".to_owned())),
        };
        assert!(!format!("{server:?}").contains("canary"));
    }

    #[test]
    fn the_file_gives_its_first_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        std::fs::write(&path, "canary\nmore\n").expect("written");
        assert_eq!(read_password(&path).expect("read").reveal(), "canary");
        std::fs::write(&path, "\n").expect("written");
        assert!(read_password(&path).is_err());
    }

    #[test]
    fn passwords_on_the_command_line_are_hidden_and_the_commands_words_left_alone() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let (clean, secret) = hide_passwords(&words(
            "lockkeeper run --url redis://:canary@host n -- x --url redis://:kept@host",
        ))
        .expect("something to hide");
        assert_eq!(
            clean,
            words("lockkeeper run --url redis://host n -- x --url redis://:kept@host")
        );
        assert_eq!(secret.reveal(), "canary");
        let (clean, _) = hide_passwords(&words("lockkeeper demo --redis=redis://u:canary@host")).expect("hidden");
        assert_eq!(clean, words("lockkeeper demo --redis=redis://u@host"));
        assert_eq!(hide_passwords(&words("lockkeeper run --url redis://host n -- x")), None);
    }
}
