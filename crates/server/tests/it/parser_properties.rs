//! Arbitrary bytes through the parser: no panic, no memory but for what arrived, no difference
//! between one piece and many.

use everleaf_server::resp::{Limits, Parser, ProtocolError};
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    arg_count_max: 64,
    bulk_size_max: 4_096,
    inline_size_max: 256,
    request_size_max: 65_536,
    authenticated: true,
};

type Requests = Vec<Vec<Vec<u8>>>;

fn parse(stream: &[u8], cuts: &[usize]) -> (Requests, Option<ProtocolError>) {
    let mut parser = Parser::default();
    let (mut buffer, mut requests, mut at) = (Vec::new(), Vec::new(), 0);
    let ends = cuts.iter().map(|cut| cut % (stream.len() + 1)).chain([stream.len()]);
    let mut ends: Vec<usize> = ends.collect();
    ends.sort_unstable();
    for end in ends {
        buffer.extend_from_slice(&stream[at..end]);
        at = end;
        loop {
            match parser.parse(&buffer, &LIMITS) {
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
                Ok(Some(size)) => {
                    assert!(size > 0 && size <= buffer.len());
                    let request = parser.request(&buffer[..size]);
                    let args: Vec<Vec<u8>> = request.args_from(0).map(<[u8]>::to_vec).collect();
                    let bytes: usize = args.iter().map(Vec::len).sum();
                    assert!(bytes <= size, "arguments are part of what arrived");
                    assert!(args.len() <= LIMITS.arg_count_max);
                    requests.push(args);
                    buffer.drain(..size);
                }
            }
        }
        assert!(parser.size_min() <= LIMITS.request_size_max + 2);
    }
    (requests, None)
}

/// Bytes that look like the protocol more often than chance would have it.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\r\n".to_vec()),
        3 => (-3i64..70).prop_map(|count| format!("*{count}\r\n").into_bytes()),
        3 => (-3i64..5_000).prop_map(|size| format!("${size}\r\n").into_bytes()),
        3 => prop::collection::vec(any::<u8>(), 0..20)
            .prop_map(|arg| [format!("${}\r\n", arg.len()).as_bytes(), &arg, b"\r\n"].concat()),
        2 => Just(b"*1\r\n$4\r\nPING\r\n".to_vec()),
        1 => any::<i64>().prop_map(|number| format!("*{number}\r\n").into_bytes()),
        1 => any::<u64>().prop_map(|number| format!("*1\r\n${number}\r\n").into_bytes()),
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => Just(b"GET \"a b\" 'c'\r\n".to_vec()),
        1 => Just(vec![b'x'; 300]),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn pieces_make_no_difference(
        stream in stream(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let (whole, whole_error) = parse(&stream, &[]);
        let (pieces, pieces_error) = parse(&stream, &cuts);
        prop_assert_eq!(&whole, &pieces);
        prop_assert_eq!(whole_error, pieces_error);
    }

    #[test]
    fn what_is_encoded_is_what_is_parsed(
        requests in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..10),
            0..10,
        ),
    ) {
        let mut stream = Vec::new();
        for request in &requests {
            stream.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
            for arg in request {
                stream.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
                stream.extend_from_slice(arg);
                stream.extend_from_slice(b"\r\n");
            }
        }
        prop_assert_eq!(parse(&stream, &[]), (requests, None));
    }
}
