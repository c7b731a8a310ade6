//! Calls, made.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, ControlFlow};

use super::batch::{Batch, Effect, Must, Part};
use super::{Answer, Call, Decided, KEYS, What};
use crate::maintenance::expiring::Seen;
use crate::{
    Action, Error, Exchange, Expiry, Map, MapView, Result, Store, View, Watch, WriteBatch, Written,
};

/// The views and watches of a thread, by their numbers.
#[derive(Default)]
pub struct Hands {
    views: HashMap<usize, Viewed>,
    watches: HashMap<usize, Watch>,
}

struct Viewed {
    /// Before the maps, as a user may do it: the maps keep it open.
    _view: View,
    maps: Vec<(String, MapView)>,
}

fn at(expiry_ms: u64) -> Expiry {
    Expiry::from_unix_ms(expiry_ms)
}

fn slices(keys: &[Vec<u8>]) -> Vec<&[u8]> {
    keys.iter().map(Vec::as_slice).collect()
}

/// The map of a name, if there is one.
fn find(store: &Store, name: &str) -> Result<Map> {
    store.existing_map(name)?.ok_or(Error::MapDropped)
}

impl Call {
    /// Makes the call, by a thread that has these views and watches.
    ///
    /// # Errors
    /// Those of the store, but for what is an answer.
    pub fn make(&self, store: &Store, hands: &mut Hands) -> Result<Answer> {
        match self.make_or_miss(store, hands) {
            Err(Error::MapDropped) => Ok(Answer::NoMap),
            answer => answer,
        }
    }

    fn make_or_miss(&self, store: &Store, hands: &mut Hands) -> Result<Answer> {
        match self {
            Call::Key { name, key, what } => what.make(&find(store, name)?, key),
            Call::Pop { name, is_last } => {
                let map = find(store, name)?;
                Ok(Answer::Pair(if *is_last { map.pop_last()? } else { map.pop_first()? }))
            }
            Call::Look { name, from, to, way } => look(&find(store, name)?, from, to, *way),
            Call::ReadAll { name, keys } => read_all(&find(store, name)?, &slices(keys)),
            Call::RemoveAll { name, keys } => {
                let count = find(store, name)?.remove_many_at_once(&slices(keys))?;
                Ok(Answer::Count(count as u64))
            }
            Call::Batch(batch) => write(store, batch, hands),
            Call::Clear(name) => find(store, name)?.clear().map(|()| Answer::Nothing),
            Call::Drop(name) => store.drop_map(name).map(Answer::Was),
            Call::Make(name) => store.map(name).map(|_| Answer::Nothing),
            Call::Load(name, pairs) => {
                let pairs = pairs.iter().map(|(key, value)| (key, value));
                match store.load_map(name, pairs) {
                    Ok(_) => Ok(Answer::Was(true)),
                    Err(Error::BadName(_)) => Ok(Answer::Was(false)),
                    Err(error) => Err(error),
                }
            }
            Call::Sweep(name) => {
                let (map, mut from) = (find(store, name)?, Some(Bound::Unbounded));
                while let Some(start) = from {
                    from = store.shared().sweep_slice(map.tree(), start, &mut Seen::default())?;
                }
                Ok(Answer::Nothing)
            }
            Call::OpenView { id, names } => {
                let mut maps = vec![];
                for name in names {
                    maps.extend(store.existing_map(name)?.map(|map| (name.clone(), map)));
                }
                let view = store.view()?;
                let maps = maps.into_iter().map(|(name, map)| (name, view.map(&map))).collect();
                hands.views.insert(*id, Viewed { _view: view, maps });
                Ok(Answer::Nothing)
            }
            Call::ReadView { id, way } => match hands.views.get(id) {
                None => Ok(Answer::Nothing),
                Some(viewed) => {
                    let maps = viewed.maps.iter();
                    let all: Result<_> =
                        maps.map(|(name, map)| Ok((name.clone(), see(map, *way)?))).collect();
                    all.map(Answer::Maps)
                }
            },
            Call::CloseView(id) => {
                drop(hands.views.remove(id));
                Ok(Answer::Nothing)
            }
            Call::Watch { id, key } => {
                let watch = store.default_map().watch(key)?;
                hands.watches.insert(*id, watch);
                Ok(Answer::Nothing)
            }
            Call::Sync => store.sync().map(|()| Answer::Nothing),
            Call::Snapshot => store.snapshot().map(|_| Answer::Nothing),
        }
    }
}

/// What several keys hold at one moment.
fn read_all(map: &Map, keys: &[&[u8]]) -> Result<Answer> {
    let mut all = vec![];
    map.get_many_at_once(keys, &mut |index, found: Option<(&[u8], Expiry)>| {
        assert_eq!(index, all.len(), "in their order");
        all.push(found.map(|(value, expiry)| (value.to_vec(), expiry.as_unix_ms())));
        ControlFlow::Continue(())
    })?;
    Ok(Answer::All(all))
}

impl From<&Decided> for Action {
    fn from(decided: &Decided) -> Action {
        match decided {
            Decided::Keep => Action::Keep,
            Decided::Put(value) => Action::Put(value.clone()),
            Decided::PutExpiring(value, ms) => Action::PutWithExpiry(value.clone(), at(*ms)),
            Decided::Expire(ms) => Action::Expire(at(*ms)),
            Decided::Remove => Action::Remove,
        }
    }
}

impl What {
    fn make(&self, map: &Map, key: &[u8]) -> Result<Answer> {
        let ms = |expiry: Expiry| expiry.as_unix_ms();
        Ok(match self {
            What::Put(value, 0) => Answer::Was(map.put(key, value)?),
            What::Put(value, expiry_ms) => {
                Answer::Was(map.put_with_expiry(key, value, at(*expiry_ms))?)
            }
            What::Insert(value) => Answer::Was(map.insert(key, value)?),
            What::Update(value) => Answer::Was(map.update(key, value)?),
            What::Replace(value) => Answer::Value(map.replace(key, value)?),
            What::Remove => Answer::Was(map.remove(key)?),
            What::Take => Answer::Value(map.take(key)?),
            What::Add(amount) => match map.fetch_add(key, *amount) {
                Ok(old) => Answer::Added(Some(old)),
                Err(Error::NotAnInteger | Error::Overflow) => Answer::Added(None),
                Err(error) => return Err(error),
            },
            What::Exchange(old, new) => {
                match map.compare_exchange(key, old.as_deref(), new.as_deref())? {
                    Exchange::Done => Answer::Exchanged(None),
                    Exchange::Mismatch(found) => Answer::Exchanged(Some(found)),
                }
            }
            What::Decide(0, decided) => Answer::Value(map.update_with(key, |_| decided.into())?),
            What::Decide(3, decided) => {
                let mut found = None;
                map.update_expiry_with(key, |expiry| {
                    found = expiry.map(ms);
                    decided.into()
                })?;
                Answer::Expires(found)
            }
            What::Decide(way, decided) => {
                let mut found = None;
                let decide = |both: Option<(&[u8], Expiry)>| {
                    found = both.map(|(value, expiry)| (value.to_vec(), ms(expiry)));
                    decided.into()
                };
                match way {
                    1 => map.update_with_expiry(key, decide)?,
                    _ => map.update_apart(key, decide)?,
                }
                Answer::Both(found)
            }
            What::Expire(expiry_ms) => Answer::Was(map.expire(key, at(*expiry_ms))?),
            What::Persist => Answer::Was(map.persist(key)?),
            What::RemoveExpired => Answer::Was(map.remove_expired(key)?),
            What::Get => Answer::Value(map.get(key)?),
            What::Contains => Answer::Was(map.contains(key)?),
            What::Expiry => Answer::Expires(map.expiry(key)?.map(ms)),
            What::Both => {
                let both = |value: &[u8], expiry: Expiry| (value.to_vec(), ms(expiry));
                Answer::Both(map.get_with_expiry(key, both)?)
            }
        })
    }
}

fn look(map: &Map, from: &[u8], to: &[u8], way: u8) -> Result<Answer> {
    let range = || map.range(from..to);
    let scanned = |scan: crate::Scan<'_>| {
        let mut pairs = vec![];
        scan.for_each(|key, value| pairs.push((key.to_vec(), value.to_vec())))?;
        Ok(Answer::Pairs(pairs))
    };
    match way {
        0 => range().collect::<Result<_>>().map(Answer::Pairs),
        1 => range().rev().collect::<Result<_>>().map(Answer::Pairs),
        2 => map.prefix(from).collect::<Result<_>>().map(Answer::Pairs),
        3 => scanned(map.scan(from..to).limit(2)),
        4 => scanned(map.scan(from..to).reverse().limit(2)),
        5 => map.first().map(Answer::Pair),
        6 => map.last().map(Answer::Pair),
        7 => map.floor(from).map(Answer::Pair),
        8 => map.ceiling(from).map(Answer::Pair),
        9 => Ok(Answer::Count(map.len())),
        10 => {
            let (mut range, mut front, mut back) = (range(), vec![], vec![]);
            while let Some(pair) = range.next() {
                front.push(pair?);
                back.extend(range.next_back().transpose()?);
            }
            front.extend(back.into_iter().rev());
            Ok(Answer::Pairs(front))
        }
        _ => {
            let keys: Vec<[u8; 1]> = KEYS.iter().map(|key| [*key]).collect();
            let mut pairs = vec![];
            let mut see = |index: usize, value: Option<&[u8]>| {
                pairs.extend(value.map(|value| (keys[index].to_vec(), value.to_vec())));
            };
            match way {
                11 => map.get_many(&keys, &mut see)?,
                _ => map.get_rows(KEYS, 1, 12, &mut see)?,
            }
            Ok(Answer::Pairs(pairs))
        }
    }
}

/// All that a view shows of a map, in one of several ways.
fn see(map: &MapView, way: u8) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let keys = || KEYS.iter().map(|key| [*key]);
    match way {
        0 => map.iter().collect(),
        1 => map.iter().rev().collect(),
        2 => {
            let get = |key: [u8; 1]| Ok(map.get(key)?.map(|value| (key.to_vec(), value)));
            keys().filter_map(|key| get(key).transpose()).collect()
        }
        3 => map.range(..[KEYS[2]]).chain(map.range([KEYS[2]]..)).collect(),
        _ => {
            let (keys, mut pairs): (Vec<_>, BTreeMap<_, _>) = (keys().collect(), BTreeMap::new());
            map.get_many(&keys, |index, value| {
                pairs.extend(value.map(|value| (keys[index].to_vec(), value.to_vec())));
            })?;
            Ok(pairs)
        }
    }
}

/// Writes a batch. Of a watch that this thread does not have nothing is asked.
fn write(store: &Store, batch: &Batch, hands: &Hands) -> Result<Answer> {
    let (mut maps, mut made) = (BTreeMap::new(), WriteBatch::new());
    for part in batch {
        if let Part::Change { name, .. } | Part::Condition { name, .. } = part
            && !maps.contains_key(name)
        {
            maps.insert(name.clone(), find(store, name)?);
        }
    }
    for part in batch {
        let _ = match part {
            Part::Change { name, key, effect } => match effect {
                Effect::Put(value, 0) => made.put(&maps[name], key, value),
                Effect::Put(value, ms) => made.put_with_expiry(&maps[name], key, value, at(*ms)),
                Effect::Remove => made.remove(&maps[name], key),
                Effect::Expire(ms) => made.expire(&maps[name], key, at(*ms)),
                Effect::ExpireSeen(seen_ms, ms) => {
                    made.expire_seen(&maps[name], key, at(*seen_ms), at(*ms))
                }
            },
            Part::Condition { name, key, must } => match must {
                Must::Have(value) => made.expect(&maps[name], key, value.as_deref()),
                Must::HaveBoth(value, ms) => {
                    made.expect_with_expiry(&maps[name], key, value, at(*ms))
                }
            },
            Part::Unwritten(id) => match hands.watches.get(id) {
                Some(watch) => made.expect_unwritten(watch),
                None => &mut made,
            },
            Part::Rollbacks(more) => made.expect_no_rollback(store.rollback_count() + more),
        };
    }
    Ok(match store.write(&made)? {
        Written::All => Answer::Refused(None),
        Written::Refused(number) => Answer::Refused(Some(number)),
    })
}
