//! Elements of lists that were pushed one by one.

use super::lists::{array, bulk};
use super::series::pipeline;
use crate::support::TestServer;

/// Each element that was pushed by itself, by a client that waits for the reply, stayed an entry: a list of 600 was
/// read from as many.
#[test]
fn what_is_pushed_one_by_one_becomes_runs() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.line("RPUSH other x");
    let members = server.store.map("server.members").unwrap();
    for side in ['L', 'R'] {
        let (before, list) = (members.len(), format!("{side}list"));
        for number in 1..=600 {
            let reply = client.line(&format!("{side}PUSH {list} {number}"));
            assert_eq!(reply, format!(":{number}"));
        }
        // A run of each 16, what is not one yet, and the note.
        let entries = members.len() - before;
        assert!(entries <= 600 / 16 + 2 * 16 + 1, "{entries} entries, pushed from {side}");
        let mut wanted: Vec<String> = (1..=600).map(|number| number.to_string()).collect();
        if side == 'L' {
            wanted.reverse();
        }
        assert_eq!(client.line(&format!("LRANGE {list} 0 -1")), array(wanted.iter()));
        for (at, element) in wanted.iter().enumerate() {
            let reply = client.line(&format!("LINDEX {list} {at}"));
            assert_eq!(reply, bulk(Some(element.clone())));
        }
        let report = everleaf_server::check_collections(&server.store).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        for element in wanted {
            assert_eq!(client.line(&format!("LPOP {list}")), bulk(Some(element)));
        }
        assert_eq!(client.line(&format!("EXISTS {list}")), ":0");
    }
    // Those that are too long for it stay as they are.
    let before = members.len();
    let long = "x".repeat(600);
    (0..40).for_each(|_| drop(client.line(&format!("RPUSH long {long}"))));
    assert_eq!(members.len() - before, 40 + 1);
}

/// What was lost: those that lie one by one before the elements of a pipeline, if a long one behind these was the one
/// with which they were looked for. The end of the list had nothing in memory then.
#[test]
fn a_long_element_takes_no_others_along() {
    let server = TestServer::start();
    let mut client = server.connect();
    let long = "x".repeat(1100);
    for side in ['L', 'R'] {
        let (list, mut wanted) = (format!("{side}list"), Vec::new());
        let mut push = |element: &str| {
            wanted.push(element.to_string());
            format!("{side}PUSH {list} {element}")
        };
        for number in 0..8 {
            client.line(&push(&format!("single{number}")));
        }
        let mut lines: Vec<String> = (0..7).map(|number| push(&format!("few{number}"))).collect();
        lines.extend([push(&long), push("last")]);
        pipeline(&mut client, &lines.iter().map(String::as_str).collect::<Vec<_>>());
        if side == 'L' {
            wanted.reverse();
        }
        assert_eq!(client.line(&format!("LRANGE {list} 0 -1")), array(wanted.iter()));
    }
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}
