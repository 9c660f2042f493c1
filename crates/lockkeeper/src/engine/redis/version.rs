use redis::Value;

/// What a server can do, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// `PEXPIRE .. GT`.
    pub(super) conditional_expiry: bool,
}

/// Reads the answer to `HELLO 3`. `Err` tells what the server is, if it is too old or cannot be recognized.
pub(super) fn features(hello: &Value) -> Result<Features, String> {
    let server = text(hello, "server").unwrap_or("a server of an unknown kind");
    let version = text(hello, "version").unwrap_or("unknown");
    let told = || format!("{server} {version} is too old: Redis 6.2 or Valkey 7.2 is needed");
    let number = number(version).ok_or_else(told)?;
    // Valkey began with 7.2.
    if number < (6, 2) {
        return Err(told());
    }
    Ok(Features {
        conditional_expiry: number >= (7, 0),
    })
}

fn text<'a>(hello: &'a Value, wanted: &str) -> Option<&'a str> {
    hello.as_map_iter()?.find_map(|(key, value)| match (key, value) {
        (Value::BulkString(key), Value::BulkString(value)) if key == wanted.as_bytes() => {
            std::str::from_utf8(value).ok()
        }
        (Value::SimpleString(key), Value::SimpleString(value)) if key == wanted => Some(value),
        _ => None,
    })
}

fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(server: &str, version: &str) -> Value {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        Value::Map(vec![
            (bulk("server"), bulk(server)),
            (bulk("version"), bulk(version)),
            (bulk("proto"), Value::Int(3)),
        ])
    }

    #[test]
    fn old_servers_are_told_apart() {
        for (server, version, conditional_expiry) in [
            ("redis", "6.2.0", Some(false)),
            ("redis", "7.0.15", Some(true)),
            ("redis", "10.1.2", Some(true)),
            ("valkey", "7.2.5", Some(true)),
            ("valkey", "8.1.0-rc1", Some(true)),
            ("redis", "6.0.16", None),
            ("redis", "5.0.7", None),
            ("redis", "what", None),
        ] {
            let found = features(&hello(server, version)).ok();
            assert_eq!(
                found.map(|features| features.conditional_expiry),
                conditional_expiry,
                "{server} {version}"
            );
        }
        let told = features(&hello("redis", "6.0.16")).unwrap_err();
        assert_eq!(told, "redis 6.0.16 is too old: Redis 6.2 or Valkey 7.2 is needed");
        assert!(features(&Value::Nil).is_err());
    }
}
