//! Streams whole, in pieces, and broken; limits to the byte; memory.

use super::*;

const LIMITS: Limits = Limits {
    arg_count_max: 1000,
    bulk_size_max: 100_000,
    inline_size_max: 1000,
    request_size_max: 200_000,
    authenticated: true,
};

type Args = Vec<Vec<u8>>;

/// All requests of a stream that arrives in the given pieces, and the error that ended it.
fn parse_pieces(pieces: &[&[u8]]) -> (Vec<Args>, Option<ProtocolError>) {
    let mut parser = Parser::default();
    let (mut buffer, mut requests) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.parse(&buffer, &LIMITS) {
                Ok(Some(size)) => {
                    let request = parser.request(&buffer[..size]);
                    requests.push(request.args_from(0).map(<[u8]>::to_vec).collect());
                    buffer.drain(..size);
                }
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fn parse_all(stream: &[u8]) -> (Vec<Args>, Option<ProtocolError>) {
    parse_pieces(&[stream])
}

fn error_of(stream: &[u8]) -> Option<ProtocolError> {
    parse_all(stream).1
}

const PIPELINE: &[u8] = b"*3\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$5\r\nvalue\r\n\
    PING 'in line'\r\n\
    *0\r\n\
    \r\n\
    *2\r\n$3\r\nGET\r\n$0\r\n\r\n\
    *-1\r\n\
    ECHO \"\\x00\"\n\
    *1\r\n$12\r\n*1\r\n$4\r\nPING\r\n";

#[test]
fn a_pipeline_is_taken_apart_into_its_requests() {
    let (requests, error) = parse_all(PIPELINE);
    let expected: [&[&[u8]]; 8] = [
        &[b"SET", b"k\r\n", b"value"],
        &[b"PING", b"in line"],
        &[],
        &[],
        &[b"GET", b""],
        &[],
        &[b"ECHO", b"\0"],
        &[b"*1\r\n$4\r\nPING"],
    ];
    assert_eq!(error, None);
    assert_eq!(requests, expected);
}

#[test]
fn every_split_of_a_pipeline_gives_the_same_requests() {
    let whole = parse_all(PIPELINE);
    for first in 0..=PIPELINE.len() {
        for second in first..=PIPELINE.len() {
            let pieces = [&PIPELINE[..first], &PIPELINE[first..second], &PIPELINE[second..]];
            assert_eq!(parse_pieces(&pieces), whole, "split at {first} and {second}");
        }
    }
    let bytes: Vec<&[u8]> = PIPELINE.chunks(1).collect();
    assert_eq!(parse_pieces(&bytes), whole);
}

#[test]
fn broken_streams_are_refused_with_their_reason() {
    let cases: [(&[u8], ProtocolError); 18] = [
        (b"*x\r\n", ProtocolError::ArgCount),
        (b"*\r\n", ProtocolError::ArgCount),
        (b"*1001\r\n", ProtocolError::ArgCount),
        (b"*999999999999999999\r\n", ProtocolError::ArgCount),
        (b"*9999999999999999999999999", ProtocolError::ArgCount),
        (b"*1\n$4\r\n", ProtocolError::ArgCount),
        (b"*1\r \n", ProtocolError::ArgCount),
        (b"*1\r\n+OK\r\n", ProtocolError::ExpectedBulk(b'+')),
        (b"*1\r\n*1\r\n$1\r\na\r\n", ProtocolError::ExpectedBulk(b'*')),
        (b"*1\r\n$-1\r\n", ProtocolError::BulkSize),
        (b"*1\r\n$x\r\n", ProtocolError::BulkSize),
        (b"*1\r\n$100001\r\n", ProtocolError::BulkSize),
        (b"*1\r\n$18446744073709551615\r\n", ProtocolError::BulkSize),
        (b"*1\r\n$4294967296\r\n", ProtocolError::BulkSize),
        (b"*1\r\n$1\r\nab\r\n", ProtocolError::ExpectedLineEnd),
        (b"*1\r\n$-\r\n", ProtocolError::BulkSize),
        (b"SET \"a\r\n", ProtocolError::InlineQuotes),
        (b"*2\r\n$100000\r\n", ProtocolError::RequestSize),
    ];
    for (stream, expected) in cases {
        let limits = Limits { request_size_max: 100_005, ..LIMITS };
        let mut parser = Parser::default();
        let result = parser.parse(stream, &limits);
        assert_eq!(result, Err(expected), "{}", stream.escape_ascii());
    }
}

#[test]
fn limits_are_exact() {
    let bulk = |size: usize| {
        [format!("*1\r\n${size}\r\n").as_bytes(), &vec![b'x'; size], b"\r\n"].concat()
    };
    assert_eq!(error_of(&bulk(100_000)), None);
    assert_eq!(error_of(&bulk(100_001)), Some(ProtocolError::BulkSize));
    let args =
        |count: usize| [format!("*{count}\r\n").as_bytes(), &b"$1\r\nx\r\n".repeat(count)].concat();
    assert_eq!(error_of(&args(1000)), None);
    assert_eq!(error_of(&args(1001)), Some(ProtocolError::ArgCount));
    assert_eq!(error_of(&[&[b'x'; 1000][..], b"\n"].concat()), None);
    assert_eq!(error_of(&[b'x'; 1001]), Some(ProtocolError::InlineSize));
    assert_eq!(error_of(&[&[b'x'; 1001][..], b"\n"].concat()), Some(ProtocolError::InlineSize));
}

#[test]
fn before_the_password_the_errors_say_so() {
    let limits = Limits { authenticated: false, arg_count_max: 10, bulk_size_max: 10, ..LIMITS };
    let error = |stream: &[u8]| Parser::default().parse(stream, &limits).unwrap_err().to_string();
    assert_eq!(error(b"*11\r\n"), "unauthenticated multibulk length");
    assert_eq!(error(b"*1\r\n$11\r\n"), "unauthenticated bulk length");
}

#[test]
fn a_claimed_size_allocates_nothing() {
    let mut parser = Parser::default();
    let limits = Limits {
        arg_count_max: 1 << 20,
        bulk_size_max: 512 << 20,
        request_size_max: 1 << 30,
        ..LIMITS
    };
    assert_eq!(parser.parse(b"*1048576\r\n$536870912\r\nabc", &limits), Ok(None));
    assert_eq!(parser.spans.capacity(), 0);
    assert_eq!(parser.size_min(), 22 + (512 << 20) + 2);
}

#[test]
fn a_restarted_request_can_be_shown_again() {
    let mut parser = Parser::default();
    let stream = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    assert_eq!(parser.parse(&stream[..15], &LIMITS), Ok(None));
    parser.restart();
    assert_eq!(parser.parse(stream, &LIMITS), Ok(Some(stream.len())));
    assert_eq!(parser.wire_arg(stream, 1), Some(&b"k"[..]));
    assert_eq!(parser.wire_arg(stream, 2), None);
}

#[test]
fn inline_arguments_do_not_pretend_to_be_on_the_wire() {
    let mut parser = Parser::default();
    let stream = b"GET k\r\n";
    assert_eq!(parser.parse(stream, &LIMITS), Ok(Some(stream.len())));
    assert_eq!(parser.wire_arg(stream, 1), None);
    assert_eq!(parser.request(stream).arg(1), b"k");
    assert_eq!(parser.request(stream).get(2), None);
}

/// What was claimed: of a series that begins with a request of many arguments the memory of 32 such requests.
#[test]
fn a_series_takes_the_memory_of_its_first_long_request_at_most() {
    for (count, capacity_max) in [(3, 200), (30, 2 * SPAN_COUNT_KEPT), (100_000, 120_000)] {
        let stream = [format!("*{count}\r\n").as_bytes(), &b"$0\r\n\r\n".repeat(count)].concat();
        let limits = Limits { arg_count_max: count, request_size_max: 2 * stream.len(), ..LIMITS };
        let (mut parser, mut series) = (Parser::default(), Series::default());
        assert_eq!(parser.parse(&stream, &limits), Ok(Some(stream.len())));
        assert!(series.push(0, &parser, &stream, stream.len()));
        assert_eq!(series.arg_count(), count);
        let capacity = series.spans.capacity();
        assert!((count..=capacity_max).contains(&capacity), "{count}: {capacity}");
    }
}

#[test]
fn memory_of_a_huge_request_is_given_back() {
    let mut parser = Parser::default();
    let count = SPAN_COUNT_KEPT * 4;
    let stream = [format!("*{count}\r\n").as_bytes(), &b"$0\r\n\r\n".repeat(count)].concat();
    let limits = Limits { arg_count_max: count, ..LIMITS };
    assert_eq!(parser.parse(&stream, &limits), Ok(Some(stream.len())));
    assert!(parser.spans.capacity() >= count);
    parser.trim();
    assert!(parser.spans.capacity() <= SPAN_COUNT_KEPT);
}
