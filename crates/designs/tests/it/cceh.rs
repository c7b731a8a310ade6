//! CCEH has no order and no scans, and says so; and a damaged log of it.

use everleaf_designs::Cceh;
use everleaf_designs::cceh::variant::Buffered;
use everleaf_index::{
    CreateMode, Domain, IndexError, OrderedIndex, Pool, PoolOptions, SingleTreePool,
};

use super::common::open;

#[test]
fn a_scan_is_refused_with_the_reason() {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    let single: SingleTreePool<Cceh> = SingleTreePool::create(pool).expect("room");
    let mut session = single.heap().session().expect("a session");
    single.tree().insert(&mut session, 7, 70).expect("room");
    let mut pairs = vec![];
    for scanned in [
        single.tree().scan(&mut session, 1, 9, &mut pairs),
        single.tree().scan_back(&mut session, 9, 9, &mut pairs),
    ] {
        let error = scanned.expect_err("it has no order");
        assert!(matches!(error, IndexError::Unsupported(_)));
        assert!(error.to_string().contains("no order of its keys"), "{error}");
    }
    assert_eq!(pairs, []);
}

/// A number of flushed writes that nobody wrote was believed; the next ones had numbers that records cannot hold,
/// and were lost.
#[test]
fn a_number_of_flushed_writes_that_nobody_wrote_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    {
        let single = open::<Cceh<Buffered>>(&path, CreateMode::New);
        let mut session = single.heap().session().expect("a free session");
        for round in 0..12_000 {
            let (key, value) = (round % 4000 + 1, round + 1);
            let _ = single.tree().upsert(&mut session, key, value).expect("room");
        }
    }
    let whole = std::fs::read(&path).expect("readable");
    let word = |line: usize, number: usize| {
        let start = line + number * 8;
        u64::from_le_bytes(whole[start..start + 8].try_into().expect("eight bytes"))
    };
    // The head of a segment has its lowest hash, its depth and the number; that of the first has 0.
    let is_head = |line: &usize| {
        word(*line, 1) == 0 && word(*line, 2) <= 20 && (100..=12_000).contains(&word(*line, 3))
    };
    let lines = (0..whole.len()).step_by(64).filter(is_head);
    let mut refused = 0;
    for line in lines {
        for wrong in [u64::MAX, 1 << 47, 1 << 46] {
            let mut damaged = whole.clone();
            damaged[line + 24..line + 32].copy_from_slice(&wrong.to_le_bytes());
            std::fs::write(&path, damaged).expect("room");
            let Ok(pool) = Pool::open(&path, &PoolOptions::default()) else { continue };
            let opened = SingleTreePool::<Cceh<Buffered>>::open(pool, 1);
            let text = opened.err().map_or(String::new(), |error| error.to_string());
            refused += u32::from(text.contains("writes are in their place"));
        }
    }
    assert!(refused >= 3, "{refused}");
}
