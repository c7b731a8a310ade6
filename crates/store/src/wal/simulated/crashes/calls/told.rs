//! What the answer of a call says of the disk, and what a crash leaves of a call; and how calls and states are printed.

use super::batch::{Effect, Part};
use super::{Answer, Call, Decided, Kept, Pairs, State, What};
use crate::map::bulk::BATCH_BYTES;

impl Call {
    /// Whether the call is done at one moment, also as the clock sees it. (A scan passes one key before and another
    /// behind a time that comes meanwhile.)
    pub fn is_of_one_moment(&self) -> bool {
        let of_keys = matches!(self, Call::Key { .. } | Call::Pop { .. } | Call::Batch(_));
        let of_maps = matches!(self, Call::Make(_) | Call::Load(..) | Call::OpenView { .. });
        of_keys || of_maps || matches!(self, Call::Sync | Call::Snapshot)
    }

    /// Whether a call that was answered so has certainly written, so that it waits for the disk. (Of one that only has
    /// read nothing is promised: what it saw need not be durable.)
    pub fn has_written(&self, answer: &Answer) -> bool {
        let is_put = |part: &Part| matches!(part, Part::Change { effect: Effect::Put(..), .. });
        match (self, answer) {
            (Call::Sync | Call::Snapshot | Call::Clear(_), Answer::Nothing) => true,
            (Call::Batch(batch), Answer::Refused(None)) => batch.iter().any(is_put),
            (Call::Pop { .. }, Answer::Pair(pair)) => pair.is_some(),
            (Call::RemoveAll { .. }, Answer::Count(count)) => *count > 0,
            (Call::Drop(_), Answer::Was(was)) => *was,
            (Call::Key { what, .. }, answer) => match (what, answer) {
                (_, Answer::NoMap) => false,
                (What::Put(..) | What::Replace(_), _) => true,
                (What::Decide(_, Decided::Put(_) | Decided::PutExpiring(..)), _) => true,
                (What::Get | What::Contains | What::Expiry | What::Both, _) => false,
                (_, Answer::Was(was)) => *was,
                (What::Take, Answer::Value(value)) => value.is_some(),
                (_, Answer::Added(old)) => old.is_some(),
                (_, Answer::Exchanged(other)) => other.is_none(),
                _ => false,
            },
            _ => false,
        }
    }
}

impl State {
    /// What a crash may leave of a call besides what was before and what is behind it.
    pub fn middle(&self, call: &Call) -> Vec<State> {
        let Call::Load(name, pairs) = call else { return vec![] };
        if self.maps.contains_key(name) {
            return vec![];
        }
        // It is made by batches, with the map in sight.
        let mut middle = self.clone();
        middle.maps.insert(name.clone(), Pairs::new());
        let (mut all, mut bytes) = (vec![middle.clone()], 0);
        for (key, value) in pairs {
            let kept = Kept::new(value.clone(), 0);
            middle.maps.get_mut(name).expect("just made").insert(key.clone(), kept);
            bytes += key.len() + value.len();
            if bytes >= BATCH_BYTES {
                bytes = 0;
                all.push(middle.clone());
            }
        }
        all
    }
}

/// What is printed of this, without the middle of long values.
pub fn shown(what: &dyn std::fmt::Debug) -> String {
    let text = format!("{what:?}");
    let (mut shown, mut last, mut count) = (String::new(), "", 0);
    for part in text.split_inclusive(", ") {
        count = if part == last { count + 1 } else { 0 };
        last = part;
        if count < 3 {
            shown.push_str(part);
        }
    }
    shown
}
