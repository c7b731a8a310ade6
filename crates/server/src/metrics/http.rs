//! The part of HTTP that it takes to watch over a server: the head of a `GET`, and a reply that ends the connection.

/// A longer head is refused.
pub const HEAD_SIZE_MAX: usize = 4 << 10;

/// What a head asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Head<'a> {
    /// It is not complete yet.
    Unfinished,
    /// A page, by its path without what stands behind `?`; without its body if only the head is wanted.
    Page { path: &'a [u8], is_head: bool },
    /// It cannot be answered: status and reason.
    Refused(u16, &'static str),
}

/// Reads the head of a request. Its fields are not looked at, since none changes the reply.
pub fn parse(bytes: &[u8]) -> Head<'_> {
    let line_end = bytes.iter().position(|byte| *byte == b'\n');
    let is_complete = ends(bytes).is_some();
    if !is_complete && bytes.len() >= HEAD_SIZE_MAX {
        return Head::Refused(431, "Request Header Fields Too Large");
    }
    let Some(line) = line_end.map(|end| &bytes[..end]) else { return Head::Unfinished };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some(b"HTTP/1.0" | b"HTTP/1.1"), None) =
        (method, target, version, words.next())
    else {
        return Head::Refused(400, "Bad Request");
    };
    if !matches!(method, b"GET" | b"HEAD") {
        return Head::Refused(405, "Method Not Allowed");
    }
    if !is_complete {
        return Head::Unfinished;
    }
    let path = target.split(|byte| *byte == b'?').next().unwrap_or(target);
    Head::Page { path, is_head: method == b"HEAD" }
}

/// Where a head ends: behind an empty line.
fn ends(bytes: &[u8]) -> Option<usize> {
    let mut line_start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'\n' {
            if matches!(&bytes[line_start..at], b"" | b"\r") {
                return Some(at + 1);
            }
            line_start = at + 1;
        }
    }
    None
}

/// A reply that is the last of its connection.
pub fn reply(status: u16, reason: &str, kind: &str, body: &str, is_head: bool) -> Vec<u8> {
    let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    let body_sent = if is_head { "" } else { body };
    let size = body.len();
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n{allow}\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{body_sent}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_known_when_its_head_is_complete() {
        let request = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for size in 0..request.len() {
            assert_eq!(parse(&request[..size]), Head::Unfinished, "{size}");
        }
        assert_eq!(parse(request), Head::Page { path: b"/metrics", is_head: false });
        assert_eq!(parse(b"HEAD / HTTP/1.0\n\n"), Head::Page { path: b"/", is_head: true });
    }

    #[test]
    fn what_is_no_request_is_refused_early() {
        let status = |bytes: &[u8]| match parse(bytes) {
            Head::Refused(status, _) => status,
            other => panic!("{other:?}"),
        };
        for bad in [
            &b"\n"[..],
            b"GET\n",
            b"GET /\r\n",
            b"GET / HTTP/2\r\n",
            b"GET  / HTTP/1.1\r\n",
            b"GET / a HTTP/1.1\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"\x16\x03\x01\x02\x00\n",
            b"get / http/1.1\r\n",
        ] {
            assert_eq!(status(bad), 400, "{}", bad.escape_ascii());
        }
        assert_eq!(status(b"POST / HTTP/1.1\r\n"), 405);
        assert_eq!(status(&[b'G'; HEAD_SIZE_MAX]), 431);
        let long = [&b"GET / HTTP/1.1\r\n"[..], &b"a: b\r\n".repeat(HEAD_SIZE_MAX / 6)].concat();
        assert_eq!(status(&long), 431);
    }

    /// Whatever comes, in whatever pieces, is answered or waited for.
    #[test]
    fn no_bytes_make_it_panic() {
        let seeds: [&[u8]; 4] = [
            b"GET / HTTP/1.1\r\n\r\n",
            b"\r\n\r\n",
            b"HEAD /health HTTP/1.0\nx: y\n\n",
            b"\0\xff\n \n",
        ];
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let mut bytes = seeds[(state >> 60) as usize % seeds.len()].to_vec();
            for shift in [8, 24, 40] {
                let at = (state >> shift) as usize % bytes.len();
                bytes[at] = (state >> (shift + 4)) as u8;
                bytes.truncate(1 + (state >> (shift + 9)) as usize % bytes.len());
            }
            let whole = parse(&bytes);
            if let Head::Refused(status, _) = whole {
                assert!(matches!(status, 400 | 405), "{}", bytes.escape_ascii());
            }
        }
    }
}
