//! Cuts a byte stream into whole RESP values, without interpreting more than it must.
//!
//! Both directions of the proxy and the append-only file use it. It knows RESP2 and RESP3: nested arrays, maps,
//! sets, pushes, attributes (which belong to the value that follows) and inline requests.

/// Nesting beyond this is taken for garbage.
const DEEPEST: usize = 64;

/// The stream is not RESP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Length in bytes of the first whole value in `bytes`, or `None` if more bytes are needed.
pub(crate) fn value_length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    value_end(bytes, 0, 0)
}

/// Length in bytes of the first whole request in `bytes`: an array of strings, or an inline line.
pub(crate) fn request_length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    match bytes.first() {
        None => Ok(None),
        Some(b'*') => value_length(bytes),
        Some(first) if first.is_ascii_alphabetic() || *first == b'\r' || *first == b'\n' => {
            Ok(bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1))
        }
        Some(_) => Err(Malformed),
    }
}

/// Command name and arguments of one whole request. Empty for an empty request.
pub(crate) fn arguments(request: &[u8]) -> Vec<Vec<u8>> {
    if request.first() == Some(&b'*') {
        return elements(request)
            .into_iter()
            .map(|element| text(element).to_vec())
            .collect();
    }
    request
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

/// The direct elements of one whole array, push or set, each with its own header. Empty for other values.
pub(crate) fn elements(value: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let Some((b'*' | b'>' | b'~', line, mut at)) = header(value, 0) else {
        return found;
    };
    let Ok(Some(count)) = number(line) else {
        return found;
    };
    for _ in 0..count {
        let Ok(Some(end)) = value_end(value, at, 0) else {
            break;
        };
        found.push(&value[at..end]);
        at = end;
    }
    found
}

/// The content of one whole string value (bulk, verbatim, simple, number), without its header.
pub(crate) fn text(value: &[u8]) -> &[u8] {
    match header(value, 0) {
        Some((b'$' | b'=' | b'!', _, start)) => value.get(start..value.len().saturating_sub(2)).unwrap_or_default(),
        Some((_, line, _)) => line,
        None => b"",
    }
}

/// Kind byte, rest of the first line, and where the content begins.
fn header(bytes: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    if end == 0 {
        return Some((0, b"", at + 2));
    }
    Some((rest[0], &rest[1..end], at + end + 2))
}

/// A length from a header; `None` for the null forms (`-1`).
fn number(line: &[u8]) -> Result<Option<usize>, Malformed> {
    if line == b"-1" {
        return Ok(None);
    }
    let digits = std::str::from_utf8(line).map_err(|_| Malformed)?;
    digits.parse().map(Some).map_err(|_| Malformed)
}

fn value_end(bytes: &[u8], at: usize, depth: usize) -> Result<Option<usize>, Malformed> {
    if depth > DEEPEST {
        return Err(Malformed);
    }
    let Some((kind, line, start)) = header(bytes, at) else {
        return Ok(None);
    };
    let (count, then) = match kind {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => return Ok(Some(start)),
        b'$' | b'=' | b'!' => {
            let end = start + number(line)?.map_or(0, |length| length + 2);
            return Ok((end <= bytes.len()).then_some(end));
        }
        b'*' | b'>' | b'~' => (number(line)?.unwrap_or(0), 0),
        b'%' => (number(line)?.unwrap_or(0).checked_mul(2).ok_or(Malformed)?, 0),
        // The attribute's pairs, and then the value they describe.
        b'|' => (number(line)?.unwrap_or(0).checked_mul(2).ok_or(Malformed)?, 1),
        _ => return Err(Malformed),
    };
    let mut end = start;
    for _ in 0..count.checked_add(then).ok_or(Malformed)? {
        match value_end(bytes, end, depth + 1)? {
            Some(next) => end = next,
            None => return Ok(None),
        }
    }
    Ok(Some(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_values_of_every_kind_are_measured_and_every_prefix_asks_for_more() {
        let values: [&[u8]; 16] = [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":12\r\n",
            b"$5\r\na\r\nbc\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            b"_\r\n",
            b"#t\r\n",
            b",1.5\r\n",
            b"(123456789012345678901234567890\r\n",
            b"%1\r\n+key\r\n*2\r\n:1\r\n:2\r\n",
            b"~2\r\n:1\r\n:2\r\n",
            b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
            b"|1\r\n+ttl\r\n:3\r\n=8\r\ntxt:abcd\r\n",
        ];
        for value in values {
            assert_eq!(value_length(value), Ok(Some(value.len())), "{value:?}");
            for cut in 0..value.len() {
                assert_eq!(value_length(&value[..cut]), Ok(None), "{value:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_follows_a_value_is_not_counted() {
        assert_eq!(value_length(b"+OK\r\n+MORE\r\n"), Ok(Some(5)));
        assert_eq!(request_length(b"PING\r\nPING\r\n"), Ok(Some(6)));
    }

    #[test]
    fn garbage_is_told_from_a_value_that_is_not_whole() {
        assert_eq!(value_length(b"hello\r\n"), Err(Malformed));
        assert_eq!(value_length(b"*x\r\n"), Err(Malformed));
        assert_eq!(request_length(b"\0\0"), Err(Malformed));
        assert_eq!(value_length("*1\r\n".repeat(80).as_bytes()), Err(Malformed));
    }

    #[test]
    fn arguments_come_from_arrays_and_from_inline_lines() {
        assert_eq!(
            arguments(b"*2\r\n$3\r\nGET\r\n$3\r\nk\r\n\r\n"),
            [b"GET".to_vec(), b"k\r\n".to_vec()]
        );
        assert_eq!(
            arguments(b"SET a  b\r\n"),
            [b"SET".to_vec(), b"a".to_vec(), b"b".to_vec()]
        );
        assert!(arguments(b"\r\n").is_empty());
    }

    #[test]
    fn elements_of_a_push_keep_their_headers() {
        let push = b">2\r\n$9\r\nsubscribe\r\n:1\r\n";
        let found = elements(push);
        assert_eq!(found.len(), 2);
        assert_eq!(text(found[0]), b"subscribe");
        assert_eq!(text(found[1]), b"1");
    }
}
