//! The types of collections that can be read in pieces.

use crate::redis::client::Reply;
use everleaf_server::transfer::Value;

/// A type of collections, by what it is called and asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    name: &'static str,
    /// What shows members from a place on, and how many there are.
    pub scan: &'static str,
    pub length: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind { name: "list", scan: "LRANGE", length: "LLEN" },
    Kind { name: "set", scan: "SSCAN", length: "SCARD" },
    Kind { name: "hash", scan: "HSCAN", length: "HLEN" },
    Kind { name: "zset", scan: "ZSCAN", length: "ZCARD" },
];

impl Kind {
    /// The type that `TYPE` tells, if it has pieces.
    pub fn of(reply: &Reply) -> Option<Kind> {
        let Reply::Text(name) = reply else { return None };
        KINDS.into_iter().find(|kind| kind.name.as_bytes() == name)
    }

    /// Whether members are asked for by their index.
    pub fn is_list(self) -> bool {
        self.scan == "LRANGE"
    }

    /// Whether members are fields with values.
    pub fn is_hash(self) -> bool {
        self.scan == "HSCAN"
    }

    /// The members in a reply.
    pub fn value_of(self, items: Vec<Vec<u8>>) -> Option<Value> {
        let pairs = |items: Vec<Vec<u8>>| -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
            let (mut items, mut pairs) = (items.into_iter(), Vec::new());
            while let Some(first) = items.next() {
                pairs.push((first, items.next()?));
            }
            Some(pairs)
        };
        Some(match self.name {
            "list" => Value::List(items),
            "set" => Value::Set(items),
            "hash" => Value::Hash(pairs(items)?),
            _ => {
                let scored = |(member, score): (Vec<u8>, Vec<u8>)| {
                    let score: f64 = std::str::from_utf8(&score).ok()?.parse().ok()?;
                    // As wherever else a score comes in: what is no number has no place in an order.
                    (!score.is_nan()).then_some((member, score))
                };
                Value::SortedSet(pairs(items)?.into_iter().map(scored).collect::<Option<_>>()?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_as_their_type_has_them() {
        let text = |text: &str| text.as_bytes().to_vec();
        let kind = |name: &str| Kind::of(&Reply::Text(text(name))).unwrap();
        assert_eq!(Kind::of(&Reply::Text(text("string"))), None);
        let items = vec![text("m"), text("1.5e3")];
        assert_eq!(kind("list").value_of(items.clone()), Some(Value::List(items.clone())));
        let scored = Value::SortedSet(vec![(text("m"), 1500.0)]);
        assert_eq!(kind("zset").value_of(items), Some(scored));
        let infinite = Value::SortedSet(vec![(text("m"), f64::NEG_INFINITY)]);
        assert_eq!(kind("zset").value_of(vec![text("m"), text("-inf")]), Some(infinite));
        assert_eq!(kind("hash").value_of(vec![text("f")]), None);
        // What was made of the first: a member above all others, which `check` has never met.
        for score in ["nan", "-NaN", "x"] {
            assert_eq!(kind("zset").value_of(vec![text("m"), text(score)]), None, "{score}");
        }
    }
}
