//! What one client has written, as it must be found: a model of the few commands that it sends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A command as words; the first is its name.
pub type Request = Vec<String>;

/// What a key holds. Scores are whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    String(String),
    Hash(BTreeMap<String, String>),
    Set(BTreeSet<String>),
    SortedSet(BTreeMap<String, i64>),
    List(VecDeque<String>),
}

/// A key.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub value: Value,
    pub expiry_ms: Option<u64>,
}

/// The databases of one client. The first letter of a key says what it holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    pub keys: BTreeMap<(u64, String), Item>,
    database: u64,
}

impl Value {
    /// What a key of this name holds before anything is in it.
    fn empty_of(key: &str) -> Value {
        match key.as_bytes()[0] {
            b'h' => Value::Hash(BTreeMap::new()),
            b's' => Value::Set(BTreeSet::new()),
            b'z' => Value::SortedSet(BTreeMap::new()),
            b'l' => Value::List(VecDeque::new()),
            _ => Value::String(String::new()),
        }
    }

    fn is_gone(&self) -> bool {
        match self {
            Value::String(_) => false,
            Value::Hash(fields) => fields.is_empty(),
            Value::Set(members) => members.is_empty(),
            Value::SortedSet(members) => members.is_empty(),
            Value::List(elements) => elements.is_empty(),
        }
    }
}

impl Model {
    /// Does what a command does; those between `MULTI` and `EXEC` are given one by one.
    pub fn apply(&mut self, request: &[String]) {
        let arg = |index: usize| request[index].as_str();
        match arg(0) {
            "MULTI" | "EXEC" => {}
            "SELECT" => self.database = arg(1).parse().unwrap(),
            "SWAPDB" => self.swap(arg(1).parse().unwrap(), arg(2).parse().unwrap()),
            "FLUSHDB" => self.keys.retain(|(database, _), _| *database != self.database),
            "DEL" | "GETDEL" | "UNLINK" => drop(self.keys.remove(&self.place(arg(1)))),
            "RENAME" | "COPY" | "MOVE" => self.relocate(request),
            "PEXPIREAT" => self.expire(arg(1), Some(arg(2).parse().unwrap())),
            "PERSIST" => self.expire(arg(1), None),
            "MSET" => {
                request[1..].chunks(2).for_each(|pair| self.put_string(&pair[0], &pair[1], None));
            }
            "SET" => {
                let kept = self.keys.get(&self.place(arg(1))).and_then(|item| item.expiry_ms);
                let expiry_ms = match request.get(3).map(String::as_str) {
                    Some("KEEPTTL") => kept,
                    Some("PXAT") => Some(arg(4).parse().unwrap()),
                    _ => None,
                };
                self.put_string(arg(1), arg(2), expiry_ms);
            }
            "SMOVE" => {
                let is_moved = arg(1) != arg(2);
                if is_moved && self.change(arg(1), |value| value.set().remove(arg(3))) {
                    self.change(arg(2), |value| value.set().insert(request[3].clone()));
                }
            }
            "SUNIONSTORE" | "SINTERSTORE" => {
                let (one, other) = (self.set_of(arg(2)), self.set_of(arg(3)));
                let members = match arg(0) {
                    "SUNIONSTORE" => &one | &other,
                    _ => &one & &other,
                };
                self.replace(arg(1), Value::Set(members));
            }
            "ZUNIONSTORE" => {
                let mut sums = self.scores_of(arg(3));
                for (member, score) in self.scores_of(arg(4)) {
                    *sums.entry(member).or_default() += score;
                }
                self.replace(arg(1), Value::SortedSet(sums));
            }
            // It is one change, so that a list of one element stays the one it is.
            "LMOVE" if arg(1) == arg(2) => self.change(arg(1), |value| match (arg(3), arg(4)) {
                ("LEFT", "RIGHT") if !value.is_gone() => value.list().rotate_left(1),
                ("RIGHT", "LEFT") if !value.is_gone() => value.list().rotate_right(1),
                _ => {}
            }),
            "LMOVE" => {
                let taken = self.change(arg(1), |value| match arg(3) {
                    "LEFT" => value.list().pop_front(),
                    _ => value.list().pop_back(),
                });
                if let Some(element) = taken {
                    self.change(arg(2), |value| match arg(4) {
                        "LEFT" => value.list().push_front(element),
                        _ => value.list().push_back(element),
                    });
                }
            }
            _ => self.change(arg(1), |value| value.apply(request)),
        }
    }

    fn place(&self, key: &str) -> (u64, String) {
        (self.database, key.to_string())
    }

    fn put_string(&mut self, key: &str, value: &str, expiry_ms: Option<u64>) {
        let value = Value::String(value.to_string());
        self.keys.insert(self.place(key), Item { value, expiry_ms });
    }

    fn replace(&mut self, key: &str, value: Value) {
        let place = self.place(key);
        match value.is_gone() {
            true => drop(self.keys.remove(&place)),
            false => drop(self.keys.insert(place, Item { value, expiry_ms: None })),
        }
    }

    /// Changes what a key holds, which is empty if it is not there; a collection without members is not there.
    fn change<R>(&mut self, key: &str, act: impl FnOnce(&mut Value) -> R) -> R {
        let place = self.place(key);
        let empty = || Item { value: Value::empty_of(key), expiry_ms: None };
        let mut item = self.keys.remove(&place).unwrap_or_else(empty);
        let result = act(&mut item.value);
        if !item.value.is_gone() {
            self.keys.insert(place, item);
        }
        result
    }

    fn expire(&mut self, key: &str, expiry_ms: Option<u64>) {
        let place = self.place(key);
        match expiry_ms {
            // It has come long ago.
            Some(..1000) => drop(self.keys.remove(&place)),
            _ => {
                self.keys.get_mut(&place).into_iter().for_each(|item| item.expiry_ms = expiry_ms);
            }
        }
    }

    fn relocate(&mut self, request: &[String]) {
        let from = self.place(&request[1]);
        let to = match request[0].as_str() {
            "RENAME" => self.place(&request[2]),
            "MOVE" => (request[2].parse().unwrap(), request[1].clone()),
            // COPY from to DB n REPLACE
            _ => (request[4].parse().unwrap(), request[2].clone()),
        };
        if from == to || request[0] == "MOVE" && self.keys.contains_key(&to) {
            return;
        }
        let Some(item) = self.keys.get(&from).cloned() else { return };
        if request[0] != "COPY" {
            self.keys.remove(&from);
        }
        self.keys.insert(to, item);
    }

    fn swap(&mut self, one: u64, other: u64) {
        let swapped = |database| match database {
            database if database == one => other,
            database if database == other => one,
            database => database,
        };
        let keys = std::mem::take(&mut self.keys).into_iter();
        self.keys = keys.map(|((database, key), item)| ((swapped(database), key), item)).collect();
    }

    fn set_of(&self, key: &str) -> BTreeSet<String> {
        let item = self.keys.get(&self.place(key)).cloned();
        item.map_or_else(BTreeSet::new, |mut item| std::mem::take(item.value.set()))
    }

    fn scores_of(&self, key: &str) -> BTreeMap<String, i64> {
        let item = self.keys.get(&self.place(key)).cloned();
        item.map_or_else(BTreeMap::new, |mut item| std::mem::take(item.value.scores()))
    }
}

impl Value {
    fn string(&mut self) -> &mut String {
        match self {
            Value::String(text) => text,
            other => panic!("no string: {other:?}"),
        }
    }

    fn hash(&mut self) -> &mut BTreeMap<String, String> {
        match self {
            Value::Hash(fields) => fields,
            other => panic!("no hash: {other:?}"),
        }
    }

    fn set(&mut self) -> &mut BTreeSet<String> {
        match self {
            Value::Set(members) => members,
            other => panic!("no set: {other:?}"),
        }
    }

    fn scores(&mut self) -> &mut BTreeMap<String, i64> {
        match self {
            Value::SortedSet(members) => members,
            other => panic!("no sorted set: {other:?}"),
        }
    }

    fn list(&mut self) -> &mut VecDeque<String> {
        match self {
            Value::List(elements) => elements,
            other => panic!("no list: {other:?}"),
        }
    }

    /// A command of one key.
    fn apply(&mut self, request: &[String]) {
        let arg = |index: usize| request[index].clone();
        let number = |index: usize| request[index].parse::<i64>().unwrap();
        match request[0].as_str() {
            "APPEND" => self.string().push_str(&request[2]),
            "INCRBY" => {
                let sum = self.string().parse().unwrap_or(0) + number(2);
                *self.string() = sum.to_string();
            }
            "HSET" => {
                let pairs = request[2..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                self.hash().extend(pairs);
            }
            "HDEL" => drop(self.hash().remove(&request[2])),
            "HINCRBY" => {
                let field = self.hash().entry(arg(2)).or_default();
                *field = (field.parse().unwrap_or(0) + number(3)).to_string();
            }
            "SADD" => self.set().extend(request[2..].iter().cloned()),
            "SREM" => drop(self.set().remove(&request[2])),
            "ZADD" => {
                let pairs = request[2..].chunks(2);
                self.scores().extend(pairs.map(|pair| (pair[1].clone(), pair[0].parse().unwrap())));
            }
            "ZINCRBY" => *self.scores().entry(arg(3)).or_default() += number(2),
            "ZREM" => drop(self.scores().remove(&request[2])),
            "ZPOPMIN" => {
                let least =
                    self.scores().iter().map(|(member, score)| (*score, member.clone())).min();
                least.and_then(|(_, member)| self.scores().remove(&member));
            }
            "LPUSH" => request[2..].iter().for_each(|it| self.list().push_front(it.clone())),
            "RPUSH" => self.list().extend(request[2..].iter().cloned()),
            "LPOP" => drop(self.list().pop_front()),
            "RPOP" => drop(self.list().pop_back()),
            "LREM" => self.list().retain(|element| *element != request[3]),
            // To the first elements.
            "LTRIM" => self.list().truncate(number(3) as usize + 1),
            name => panic!("the model has no {name}"),
        }
    }
}
