//! Programs that are kept since they did something new.

use everleaf_machine::simulated::{Random, Report};
use everleaf_prove::programs::made::Made;
use everleaf_prove::search::corpus::{Corpus, PROGRAMS_MAX};

fn report(marks: &[(&'static str, u64)]) -> Report {
    Report { marks: marks.to_vec(), ..Report::default() }
}

const PROGRAM: &str = "made/3/near/2/usual/1ff/1a.7c/3/9e41";

#[test]
fn what_is_new_is_kept_and_gone_back_to() {
    let mut corpus = Corpus::default();
    let random = &mut Random::new(7);
    let drawn = "made/9/far/3/usual/7/-/1/1";
    assert_eq!(corpus.vary(drawn.to_owned(), random), drawn);
    corpus.note(PROGRAM, &report(&[("split", 3)]));
    corpus.note("made/2/near/2/usual/1/-/-/1", &report(&[("split", 2)]));
    assert_eq!(corpus.kept(), 1);
    corpus.note("scenario/merge", &report(&[("merge", 1)]));
    assert_eq!(corpus.kept(), 1, "only what is made can be varied");
    let varied = Made::from_name(&corpus.vary(drawn.to_owned(), random)).expect("a program");
    assert_eq!((varied.slots, varied.threads, varied.tail), (3, 3, 0x9e41));
    assert!(varied.walk.starts_with(&[0x1a, 0x7c]), "{varied:?}");
    corpus.note(PROGRAM, &report(&[("split", 300)]));
    assert_eq!(corpus.kept(), 2, "far more often than ever is new, too");
}

#[test]
fn the_oldest_goes() {
    let mut corpus = Corpus::default();
    for number in 0..100 {
        let mark: &'static str = Box::leak(format!("mark {number}").into_boxed_str());
        corpus.note(PROGRAM, &report(&[(mark, 1)]));
    }
    assert_eq!((corpus.kept(), corpus.at_hand()), (100, PROGRAMS_MAX));
}
