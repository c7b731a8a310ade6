//! TEMPORARY: the public API over a BTreeMap, while the layers below are being built.
#![allow(missing_docs, clippy::unwrap_used)]
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::path::Path;
use std::sync::{Arc, Mutex};

type Tree = Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>;

/// Where stores become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain { /// ADR
    Line, /// eADR
    Visible, /// any file
    Process }

#[derive(Clone, Debug, Default)]
pub struct Options { create: bool, read_only: bool }
impl Options {
    pub fn new() -> Self { Self::default() }
    /// Create the pool if there is none.
    pub fn create(mut self, yes: bool) -> Self { self.create = yes; self }
    /// Create the pool and fail if there is one.
    pub fn create_new(self, _yes: bool) -> Self { self }
    pub fn read_only(mut self, yes: bool) -> Self { self.read_only = yes; self }
    /// File size at creation; grows in place.
    pub fn initial_size_bytes(self, _n: u64) -> Self { self }
    /// Ceiling of the file's growth (address space reserved for it).
    pub fn max_size_bytes(self, _n: u64) -> Self { self }
    /// Overrides the detected persistence domain.
    pub fn domain(self, _d: Domain) -> Self { self }
    /// Opens a pool although the machine crashed while it was open on an ordinary disk.
    pub fn trust_after_machine_crash(self, _yes: bool) -> Self { self }
    /// Threads that recovery may use; 0 = one per CPU.
    pub fn recovery_threads(self, _n: usize) -> Self { self }
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> { Store::open(path, self) }
}

/// Send + Sync; share it by reference or Arc.
pub struct Store { maps: Mutex<BTreeMap<String, Tree>>, default: Map }

/// One ordered map of byte-string keys and values; cheap to clone, Send + Sync.
#[derive(Clone)]
pub struct Map { tree: Tree }

/// What `compare_exchange` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange { /// the exchange was made
    Done, /// the value was another (None: absent); nothing was changed
    Mismatch(Option<Vec<u8>>) }

/// What an update function wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action { Keep, Put(Vec<u8>), Remove }

#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    pub keys: u64, pub maps: u64, pub pool_size_bytes: u64, pub pool_used_bytes: u64, pub pool_max_bytes: u64,
    pub memory_bytes: u64, pub leaves: u64, pub height: u64, pub splits: u64, pub merges: u64, pub recovery_ns: u64,
    pub domain: Option<&'static str>,
}
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport { pub keys: u64, pub leaves: u64, pub problems: Vec<String> }
impl CheckReport { pub fn is_clean(&self) -> bool { self.problems.is_empty() } }

impl Store {
    pub fn open(path: impl AsRef<Path>, o: Options) -> Result<Store> {
        if !o.create && !path.as_ref().exists() { return Err(Error::NotFound(path.as_ref().into())); }
        let t = Tree::default();
        Ok(Store { maps: Mutex::new([("default".to_string(), t.clone())].into()), default: Map { tree: t } })
    }
    /// The map of that name, created if absent.
    pub fn map(&self, name: &str) -> Result<Map> { Ok(Map { tree: self.maps.lock().unwrap().entry(name.into()).or_default().clone() }) }
    pub fn existing_map(&self, name: &str) -> Result<Option<Map>> { Ok(self.maps.lock().unwrap().get(name).map(|t| Map { tree: t.clone() })) }
    pub fn map_names(&self) -> Vec<String> { self.maps.lock().unwrap().keys().cloned().collect() }
    /// Removes a map and everything in it; false if there was none.
    pub fn drop_map(&self, name: &str) -> Result<bool> { Ok(self.maps.lock().unwrap().remove(name).is_some()) }
    pub fn statistics(&self) -> Statistics { Statistics { keys: self.default.len(), ..Default::default() } }
    pub fn check(&self) -> Result<CheckReport> { Ok(CheckReport::default()) }
    /// Marks the pool clean and releases it (dropping does the same, but cannot report an error).
    pub fn close(self) -> Result<()> { Ok(()) }
}
/// A store is its default map too: `store.get(..)`.
impl std::ops::Deref for Store { type Target = Map; fn deref(&self) -> &Map { &self.default } }

impl Map {
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> { Ok(self.tree.lock().unwrap().get(key).cloned()) }
    /// Without a copy: `f` sees the value in place and must be quick (it holds back reclamation).
    pub fn get_with<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> { Ok(self.tree.lock().unwrap().get(key).map(|v| f(v))) }
    /// Looks up many keys at once, overlapping their cache misses; calls `f(index, value)` for each key in order.
    pub fn get_many(&self, keys: &[&[u8]], mut f: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let t = self.tree.lock().unwrap(); for (i, k) in keys.iter().enumerate() { f(i, t.get(*k).map(|v| &v[..])) } Ok(()) }
    pub fn contains(&self, key: &[u8]) -> Result<bool> { Ok(self.tree.lock().unwrap().contains_key(key)) }
    /// Upsert; true if a value was replaced.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> { Ok(self.tree.lock().unwrap().insert(key.into(), value.into()).is_some()) }
    /// Upsert; the old value.
    pub fn replace(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> { Ok(self.tree.lock().unwrap().insert(key.into(), value.into())) }
    /// Only if absent; true if inserted.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> { let mut t = self.tree.lock().unwrap(); if t.contains_key(key) { return Ok(false) } t.insert(key.into(), value.into()); Ok(true) }
    /// Only if present; true if updated.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> { let mut t = self.tree.lock().unwrap(); if !t.contains_key(key) { return Ok(false) } t.insert(key.into(), value.into()); Ok(true) }
    /// True if it was there.
    pub fn remove(&self, key: &[u8]) -> Result<bool> { Ok(self.tree.lock().unwrap().remove(key).is_some()) }
    /// The removed value.
    pub fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>> { Ok(self.tree.lock().unwrap().remove(key)) }
    /// `None` stands for absent on both sides.
    pub fn compare_exchange(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Exchange> {
        let mut t = self.tree.lock().unwrap(); let cur = t.get(key).cloned();
        if cur.as_deref() != expected { return Ok(Exchange::Mismatch(cur)) }
        match new { Some(v) => { t.insert(key.into(), v.into()); } None => { t.remove(key); } } Ok(Exchange::Done) }
    /// Atomic read-modify-write of one key; `f` may run several times. Returns the value before.
    pub fn update_with(&self, key: &[u8], mut f: impl FnMut(Option<&[u8]>) -> Action) -> Result<Option<Vec<u8>>> {
        let mut t = self.tree.lock().unwrap(); let cur = t.get(key).cloned();
        match f(cur.as_deref()) { Action::Keep => {} Action::Put(v) => { t.insert(key.into(), v); } Action::Remove => { t.remove(key); } } Ok(cur) }
    /// Double-ended iterator over the keys of `range`, in byte order.
    pub fn range<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Range {
        let b = |b: Bound<&&[u8]>| b.map(|k| k.to_vec());
        let (s, e) = (b(range.start_bound()), b(range.end_bound()));
        Range { items: self.tree.lock().unwrap().range((s, e)).map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>().into() } }
    pub fn iter(&self) -> Range { self.range(..) }
    pub fn prefix(&self, prefix: &[u8]) -> Range { Range { items: self.tree.lock().unwrap().iter().filter(|(k, _)| k.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>().into() } }
    /// Visits pairs in place, ascending or descending, until `f` breaks. `f` must not call the store.
    pub fn scan<'k>(&self, range: impl RangeBounds<&'k [u8]>, reverse: bool, mut f: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        let r = self.range(range);
        if reverse { for (k, v) in r.rev() { if f(&k, &v).is_break() { break } } } else { for (k, v) in r { if f(&k, &v).is_break() { break } } } Ok(()) }
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> { Ok(self.iter().next()) }
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> { Ok(self.iter().next_back()) }
    /// Exact when no writer is active; O(threads).
    pub fn len(&self) -> u64 { self.tree.lock().unwrap().len() as u64 }
    pub fn is_empty(&self) -> bool { self.len() == 0 }
    /// Removes everything, atomically, also across a crash.
    pub fn clear(&self) -> Result<()> { self.tree.lock().unwrap().clear(); Ok(()) }
}
pub struct Range { items: std::collections::VecDeque<(Vec<u8>, Vec<u8>)> }
impl Iterator for Range { type Item = (Vec<u8>, Vec<u8>); fn next(&mut self) -> Option<Self::Item> { self.items.pop_front() } }
impl DoubleEndedIterator for Range { fn next_back(&mut self) -> Option<Self::Item> { self.items.pop_back() } }
