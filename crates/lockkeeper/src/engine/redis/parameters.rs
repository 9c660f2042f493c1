//! What a server's URL can say behind its question mark.

use std::path::PathBuf;

use form_urlencoded::{Serializer, parse};

use crate::error::UrlError;

/// The parameters that are the driver's own: those of socket URLs, and the protocol, which is then set by us.
const DRIVERS: [&str; 4] = ["db", "user", "pass", "protocol"];

/// Ours, in the order of the documentation.
const KNOWN: &str = "tls-ca, tls-cert, tls-key, tls-server-name, allow-anonymous and scripts";

/// What was said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) tls_ca: Option<PathBuf>,
    pub(super) tls_cert: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
    pub(super) tls_server_name: Option<String>,
    pub(super) allow_anonymous: Option<bool>,
    pub(super) preloaded_scripts: Option<bool>,
}

impl Parameters {
    /// The URL as the driver is to read it, and what else it says. Texts of errors repeat nothing: what stands behind a
    /// question mark can also be the end of a password in which it was not written as %3F.
    pub(super) fn split(url: &str) -> Result<(String, Self), UrlError> {
        let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
        if fragment == "insecure" {
            return Err(refused(
                "certificates are always verified; name the certificate of your own authority with tls-ca=FILE",
            ));
        }
        if !fragment.is_empty() {
            return Err(refused("nothing may follow a #; in a password, write it as %23"));
        }
        let Some((address, query)) = url.split_once('?') else {
            return Ok((url.to_owned(), Self::default()));
        };
        let mut said = Self::default();
        let mut rest = Serializer::new(String::new());
        for (name, value) in parse(query.as_bytes()) {
            match &*name {
                "tls-ca" => set(&mut said.tls_ca, PathBuf::from(&*value))?,
                "tls-cert" => set(&mut said.tls_cert, PathBuf::from(&*value))?,
                "tls-key" => set(&mut said.tls_key, PathBuf::from(&*value))?,
                "tls-server-name" => set(&mut said.tls_server_name, value.into_owned())?,
                "allow-anonymous" => set(&mut said.allow_anonymous, choice(&value, "true", "false")?)?,
                "scripts" => set(&mut said.preloaded_scripts, choice(&value, "preloaded", "loaded")?)?,
                driver if DRIVERS.contains(&driver) => drop(rest.append_pair(driver, &value)),
                _ => return Err(refused(&format!("a parameter that is not known; there are {KNOWN}"))),
            }
        }
        let rest = rest.finish();
        let url = if rest.is_empty() {
            address.to_owned()
        } else {
            format!("{address}?{rest}")
        };
        Ok((url, said))
    }
}

fn set<T>(place: &mut Option<T>, value: T) -> Result<(), UrlError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(refused("a parameter is given twice")),
    }
}

fn choice(value: &str, yes: &str, no: &str) -> Result<bool, UrlError> {
    match value {
        _ if value == yes => Ok(true),
        _ if value == no => Ok(false),
        _ => Err(refused(
            "allow-anonymous is true or false, and scripts is loaded or preloaded",
        )),
    }
}

fn refused(text: &str) -> UrlError {
    UrlError::Unreadable(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_taken_out_and_the_drivers_stay() {
        let (url, said) = Parameters::split(
            "rediss://user:p%40ss@host:1/2?tls-ca=/etc/my%20ca.pem&protocol=resp3&tls-cert=/c&tls-key=/k\
             &tls-server-name=redis.internal&allow-anonymous=true&scripts=preloaded",
        )
        .unwrap();
        assert_eq!(url, "rediss://user:p%40ss@host:1/2?protocol=resp3");
        let told = Parameters {
            tls_ca: Some("/etc/my ca.pem".into()),
            tls_cert: Some("/c".into()),
            tls_key: Some("/k".into()),
            tls_server_name: Some("redis.internal".to_owned()),
            allow_anonymous: Some(true),
            preloaded_scripts: Some(true),
        };
        assert_eq!(said, told);
        let socket = Parameters::split("unix:///r.sock?db=1&pass=a%2Bb&scripts=loaded").unwrap();
        assert_eq!(socket.0, "unix:///r.sock?db=1&pass=a%2Bb");
        assert_eq!(socket.1.preloaded_scripts, Some(false));
        assert_eq!(Parameters::split("redis://host").unwrap().1, Parameters::default());
    }

    #[test]
    fn what_is_not_understood_is_refused_and_not_repeated() {
        for url in [
            "redis://host?hunter2=hunter2",
            "redis://u:p?hunter2@host",
            "redis://u:p#hunter2@host",
            "rediss://u:hunter2@host/#insecure",
            "redis://host?scripts=hunter2",
            "redis://host?allow-anonymous=hunter2",
            "redis://host?tls-ca=/a&tls-ca=/hunter2",
        ] {
            let error = Parameters::split(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}: {error}");
        }
    }
}
