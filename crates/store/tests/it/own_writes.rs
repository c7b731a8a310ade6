//! Functions that decide on a key and write this key themselves. What was lost: they were asked again for each of their
//! writes, for ever, and what they had written stayed in the pool until it was full.

use std::cell::Cell;

use everleaf::{Action, Error, Expiry, Map, Options, Store, WriteBatch};

/// So often no function is asked that ends.
const ASKED_MAX: u32 = 1000;

type Write<'a> = &'a dyn Fn() -> Result<(), Error>;

fn open(folder: &std::path::Path) -> Store {
    let options = Options::new().create(true).max_size_bytes(1 << 28);
    options.open(folder.join("pool")).expect("the pool opens")
}

/// Decides on `k` by a function that does something else before, each time.
fn deciding(map: &Map, act: Write<'_>) -> (Result<(), Error>, u32) {
    let asked = Cell::new(0);
    let decided = map.update_with(b"k", |_| {
        asked.set(asked.get() + 1);
        if asked.get() == ASKED_MAX {
            return Action::Keep;
        }
        let _ = act();
        Action::Put(b"decided".to_vec())
    });
    (decided.map(drop), asked.get())
}

#[test]
fn a_decision_that_writes_its_own_key_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let map = store.default_map();
    let number = Cell::new(0u64);
    let next = || {
        number.set(number.get() + 1);
        number.get().to_string()
    };
    let batch = |key: &[u8]| {
        let mut batch = WriteBatch::new();
        batch.put(map, b"other", next()).put(map, key, next());
        store.write(&batch).map(drop)
    };
    let later = || {
        next();
        Expiry::from_unix_ms(4_000_000_000_000 + number.get())
    };
    let writes: [(&str, Write<'_>); 8] = [
        ("put", &|| map.put(b"k", next()).map(drop)),
        ("remove", &|| map.remove(b"k").and_then(|_| map.insert(b"k", next())).map(drop)),
        ("expire", &|| map.expire(b"k", later()).map(drop)),
        ("add", &|| map.fetch_add(b"k", 1).map(drop)),
        ("replace", &|| map.replace(b"k", next()).map(drop)),
        ("decide", &|| map.update_with(b"k", |_| Action::Put(next().into_bytes())).map(drop)),
        ("batch", &|| batch(b"k")),
        ("exchange", &|| {
            let was = map.get(b"k")?;
            map.compare_exchange(b"k", was.as_deref(), Some(next().as_bytes())).map(drop)
        }),
    ];
    for with_view in [false, true] {
        let _view = with_view.then(|| store.view().expect("a view"));
        for (what, write) in &writes {
            map.put(b"k", b"0").expect("room");
            let (decided, asked) = deciding(map, *write);
            // A first batch from within an operation is refused anyway.
            if !with_view && *what == "batch" {
                assert!(decided.is_ok() && asked == 1, "{what}: {decided:?}, asked {asked} times");
                continue;
            }
            let is_told = matches!(&decided, Err(Error::Nested(text)) if text.contains("itself"));
            assert!(is_told && asked == 2, "{what}: {decided:?}, asked {asked} times");
            assert_ne!(map.get(b"k").expect("get").as_deref(), Some(&b"decided"[..]), "{what}");
        }
        // The refused write says the same to the function.
        let answers = Cell::new((0, 0));
        let _ = deciding(map, &|| {
            let put = map.put(b"k", next());
            let (done, refused) = answers.get();
            answers.set(if put.is_ok() { (done + 1, refused) } else { (done, refused + 1) });
            Ok(())
        });
        assert_eq!(answers.get(), (1, 1));
    }
    assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
}

/// Other keys, the same key of another map, and a key that it has written only once, are no matter.
#[test]
fn a_decision_may_write_what_is_not_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let (map, other) = (store.default_map(), store.map("other").expect("room"));
    let _view = store.view().expect("a view");
    let mut asked = 0;
    let decided = map.update_with(b"k", |found| {
        asked += 1;
        map.put(b"j", b"1").expect("another key");
        other.put(b"k", b"2").expect("another map");
        let mut batch = WriteBatch::new();
        batch.put(map, b"i", b"3").put(&other, b"k", b"3");
        store.write(&batch).expect("others");
        if found.is_none() {
            map.put(b"k", b"made").expect("once");
        }
        Action::Put([found.unwrap_or_default(), b"!"].concat())
    });
    assert_eq!(decided.expect("room"), Some(b"made".to_vec()));
    assert_eq!((asked, map.get(b"k").expect("get")), (2, Some(b"made!".to_vec())));
    // A panic leaves no note.
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.update_with(b"k", |found| {
            assert_eq!(found, Some(&b"made!"[..]), "planned");
            map.put(b"k", b"again").expect("once");
            Action::Keep
        })
    }));
    drop(panics);
    map.put(b"k", b"free").expect("no note is left");
    assert_eq!(map.get(b"k").expect("get"), Some(b"free".to_vec()));
}
