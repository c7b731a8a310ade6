//! The formats against each other: what is written is read back, what is malformed is named.

use super::columns::{Column, ColumnChoice};
use super::*;

/// Byte strings that have broken a text format before.
fn awkward() -> Vec<Vec<u8>> {
    let mut cases: Vec<Vec<u8>> = [
        "",
        " ",
        "a",
        "a b",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\\",
        "\\t",
        "\\\\n",
        "\"",
        "\"\"",
        ",",
        "a,b",
        "\u{feff}x",
        "\u{2028}",
        "\0",
        "{\"key\":1}",
        "'",
        "=1+1",
        "#",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    cases.push((0..=255).collect());
    cases.push(vec![0xff, 0xfe]);
    cases
}

fn read_all(
    format: Format,
    text: &[u8],
    choice: &ColumnChoice,
) -> Vec<Result<Pair, (u64, String)>> {
    let unwrap = |error| match error {
        ReadError::Bad { line, reason } => (line, reason),
        ReadError::Io(error) => panic!("reading memory cannot fail: {error}"),
    };
    let mut reader = match format.reader(text, choice) {
        Ok(reader) => reader,
        Err(error) => return vec![Err(unwrap(error))],
    };
    let mut all = Vec::new();
    loop {
        let mut pair = Pair::default();
        match reader.read(&mut pair) {
            Ok(true) => all.push(Ok(pair)),
            Ok(false) => return all,
            Err(error) => all.push(Err(unwrap(error))),
        }
    }
}

fn write_all(format: Format, pairs: &[(Vec<u8>, Vec<u8>)], keys_only: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = format.writer(&mut out, keys_only);
    for (key, value) in pairs {
        writer.write(key, value).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    out
}

#[test]
fn every_format_reads_back_exactly_what_it_wrote() {
    let mut pairs = Vec::new();
    for key in awkward() {
        for value in awkward() {
            pairs.push((key.clone(), value));
        }
    }
    for format in [Format::Tsv, Format::Csv, Format::Jsonl] {
        let text = write_all(format, &pairs, false);
        let read = read_all(format, &text, &ColumnChoice::default());
        assert_eq!(read.len(), pairs.len(), "{format:?}");
        for (pair, (key, value)) in read.into_iter().zip(&pairs) {
            let pair =
                pair.unwrap_or_else(|error| panic!("{format:?} {key:?} {value:?}: {error:?}"));
            assert_eq!((&pair.key, &pair.value), (key, value), "{format:?}");
        }
    }
}

#[test]
fn keys_alone_are_read_back_too() {
    // An empty key alone is a blank line in TSV, which a reader passes over.
    let pairs: Vec<_> =
        awkward().into_iter().filter(|key| !key.is_empty()).map(|key| (key, Vec::new())).collect();
    let choice = ColumnChoice { keys_only: true, ..ColumnChoice::default() };
    for format in [Format::Tsv, Format::Csv, Format::Jsonl] {
        let text = write_all(format, &pairs, true);
        let read: Vec<_> = read_all(format, &text, &choice)
            .into_iter()
            .map(|pair| pair.map(|pair| (pair.key, pair.value)).unwrap())
            .collect();
        assert_eq!(read, pairs, "{format:?}");
    }
}

#[test]
fn malformed_lines_are_named_and_the_rest_is_still_read() {
    let tsv = b"a\t1\nno tab\n\nb\t2\t3\nc\t\\x\nd\t\\\ne\t5";
    let csv = b"a,1\nonly\n\n\"b\nb\",2\nc,3,4\nd,\"open\nand on";
    let jsonl = b"{\"key\":\"a\",\"value\":\"1\"}\nnot json\n[]\n{\"key\":\"b\"}\n\
                  {\"key\":\"b\",\"value\":1}\n{\"key\":\"c\",\"value_b64\":\"*\"}\n\
                  {\"key\":\"c\",\"key_b64\":\"Yw==\",\"value\":\"\"}\n  \n{\"value\":\"x\"}\n\
                  {\"key\":\"d\",\"value\":\"4\"} trailing\n\xff\n{\"key_b64\":\"/w==\",\"value\":\"\"}";
    let lines = |format, text: &[u8]| {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for pair in read_all(format, text, &ColumnChoice::default()) {
            match pair {
                Ok(pair) => good.push(pair.line),
                Err((line, reason)) => {
                    assert!(reason.len() > 20, "a reason explains: {reason}");
                    bad.push(line);
                }
            }
        }
        (good, bad)
    };
    assert_eq!(lines(Format::Tsv, tsv), (vec![1, 7], vec![2, 4, 5, 6]));
    assert_eq!(lines(Format::Csv, csv), (vec![1, 4], vec![2, 6, 7]));
    assert_eq!(lines(Format::Jsonl, jsonl), (vec![1, 12], vec![2, 3, 4, 5, 6, 7, 9, 10, 11]));
}

#[test]
fn columns_are_chosen_by_number_or_by_name() {
    let by = |key: &str, value: &str, header| ColumnChoice {
        key: Some(key.parse().unwrap()),
        value: Some(value.parse().unwrap()),
        header,
        ..ColumnChoice::default()
    };
    let bytes = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    for (format, separator) in [(Format::Csv, ","), (Format::Tsv, "\t")] {
        let text = "id,name,age\n1,Ada,36\n2,Alan,41\n".replace(',', separator);
        let pairs = |choice: &ColumnChoice| -> Vec<_> {
            let all = read_all(format, text.as_bytes(), choice);
            all.into_iter().map(|pair| pair.map(|pair| (pair.key, pair.value))).collect()
        };
        let people = vec![Ok(bytes("Ada", "1")), Ok(bytes("Alan", "2"))];
        assert_eq!(pairs(&by("name", "id", false)), people, "names mean that there is a header");
        assert_eq!(pairs(&by("2", "1", true)), people);
        assert_eq!(pairs(&by("2", "1", false))[0], Ok(bytes("name", "id")));
        let missing = pairs(&by("name", "size", false));
        assert!(matches!(&missing[..], [Err((1, why))] if why.contains("id, name, age")));
        let beyond = pairs(&by("1", "4", true));
        assert!(matches!(&beyond[..], [Err((2, why)), Err((3, _))] if why.contains("column 4")));
    }
}

#[test]
fn a_byte_order_mark_is_left_out_unless_it_is_in_the_first_key() {
    for (format, text) in [
        (Format::Tsv, "\u{feff}a\t1\n"),
        (Format::Csv, "\u{feff}a,1\n"),
        (Format::Jsonl, "\u{feff}{\"key\":\"a\",\"value\":\"1\"}\n"),
    ] {
        let read = read_all(format, text.as_bytes(), &ColumnChoice::default());
        assert_eq!(read[0].as_ref().unwrap().key, b"a", "{format:?}");
        let pairs = vec![("\u{feff}a".as_bytes().to_vec(), b"1".to_vec()); 2];
        let text = write_all(format, &pairs, false);
        for pair in read_all(format, &text, &ColumnChoice::default()) {
            assert_eq!(pair.unwrap().key, pairs[0].0, "{format:?}");
        }
    }
}

#[test]
fn a_column_number_counts_from_one() {
    assert_eq!("2".parse(), Ok(Column::Number(2)));
    assert_eq!("age".parse(), Ok(Column::Name("age".to_string())));
    assert!("0".parse::<Column>().is_err());
}

#[test]
fn the_extension_tells_the_format() {
    for (path, format) in [
        ("a.tsv", Some(Format::Tsv)),
        ("dir.csv/a.TXT", Some(Format::Tsv)),
        ("a.b.csv", Some(Format::Csv)),
        ("a.ndjson", Some(Format::Jsonl)),
        ("words", None),
        ("a.xml", None),
    ] {
        assert_eq!(Format::of_path(Path::new(path)), format, "{path}");
    }
}

/// What could not be loaded again: a bitmap, which is text of control characters, of which JSON needs six bytes each. A
/// line of gigabytes was written without a word.
#[test]
fn no_text_is_more_than_twice_as_long_as_json() {
    let quotes = "\"".repeat(1000);
    let mixed = "\0\"a".repeat(400);
    let (zeros, mostly) = ("\0".repeat(1000), format!("{}{}", "\0".repeat(201), "x".repeat(804)));
    for text in [&quotes, &mixed, &zeros, &mostly, &"\0".repeat(100), &"\n\u{1f}".repeat(90)] {
        let pair = Pair { key: text.clone().into(), value: text.clone().into(), line: 1 };
        let mut written = Vec::new();
        let mut writer = super::jsonl::Writer::new(&mut written, false);
        writer.write(&pair.key, &pair.value).expect("room");
        writer.flush().expect("room");
        assert!(written.len() <= 4 * text.len() + 1024, "{} of {}", written.len(), text.len());
        let is_base64 = written.starts_with(b"{\"key_b64");
        assert_eq!(is_base64, text.len() > 100 && *text != quotes && *text != mostly, "{text:?}");
        assert_eq!(read_all(Format::Jsonl, &written, &ColumnChoice::default()), [Ok(pair)]);
    }
}
