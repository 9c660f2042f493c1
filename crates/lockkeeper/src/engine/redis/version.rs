use redis::Value;

/// Checks the answer to `HELLO 3`. `Err` tells what the server is, if it is too old or cannot be recognized.
pub(super) fn check(hello: &Value) -> Result<(), String> {
    let server = text(hello, "server").unwrap_or("a server of an unknown kind");
    let version = text(hello, "version").unwrap_or("unknown");
    // Valkey began with 7.2.
    if number(version).is_some_and(|number| number >= (6, 2)) {
        Ok(())
    } else {
        Err(format!(
            "{server} {version} is too old: Redis 6.2 or Valkey 7.2 is needed"
        ))
    }
}

fn text<'a>(hello: &'a Value, wanted: &str) -> Option<&'a str> {
    hello.as_map_iter()?.find_map(|(key, value)| match (key, value) {
        (Value::BulkString(key), Value::BulkString(value)) if key == wanted.as_bytes() => {
            std::str::from_utf8(value).ok()
        }
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
        for (server, version, enough) in [
            ("redis", "6.2.0", true),
            ("redis", "7.0.15", true),
            ("redis", "10.1.2", true),
            ("valkey", "7.2.5", true),
            ("valkey", "8.1.0-rc1", true),
            ("redis", "6.0.16", false),
            ("redis", "5.0.7", false),
            ("redis", "what", false),
        ] {
            assert_eq!(check(&hello(server, version)).is_ok(), enough, "{server} {version}");
        }
        let told = check(&hello("redis", "6.0.16")).unwrap_err();
        assert_eq!(told, "redis 6.0.16 is too old: Redis 6.2 or Valkey 7.2 is needed");
        assert!(check(&Value::Nil).is_err());
    }
}
