//! What a write wants, and what it does to a key. The same for all designs.

/// What a compare-and-exchange found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// The value was as expected and has been replaced.
    Done,
    /// The value was another; nothing was changed.
    Mismatch(u64),
    /// The key was absent; nothing was changed.
    Absent,
}

/// What a write wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Add the key unless it is there.
    Insert,
    /// Replace the value if the key is there.
    Update,
    /// Add or replace.
    Upsert,
    /// Remove the key if it is there.
    Remove,
    /// Replace the value if it is this one.
    Exchange(u64),
    /// Remove the key if its value is this one.
    RemoveExact(u64),
}

impl Intent {
    /// Whether an absent key is added.
    #[inline(always)]
    pub fn inserts(self) -> bool {
        matches!(self, Intent::Insert | Intent::Upsert)
    }

    /// Whether a key that is changed is taken out.
    #[inline(always)]
    pub fn removes(self) -> bool {
        matches!(self, Intent::Remove | Intent::RemoveExact(_))
    }

    /// Whether the effect depends on the value that is there.
    #[inline(always)]
    pub fn compares(self) -> bool {
        matches!(self, Intent::Exchange(_) | Intent::RemoveExact(_))
    }

    /// Whether a key that is there with this value is left as it is.
    #[inline(always)]
    pub(crate) fn declines(self, value: u64) -> bool {
        match self {
            Intent::Insert => true,
            Intent::Exchange(expected) | Intent::RemoveExact(expected) => value != expected,
            Intent::Update | Intent::Upsert | Intent::Remove => false,
        }
    }

    /// Outcome and effect on a key that has the value `old`, or is absent.
    #[inline(always)]
    pub fn decide(self, old: Option<u64>) -> (Outcome, Effect) {
        let effect = match old {
            None if self.inserts() => Effect::Put,
            None => Effect::None,
            Some(value) if self.declines(value) => Effect::None,
            Some(_) if self.removes() => Effect::Delete,
            Some(_) => Effect::Put,
        };
        (Outcome { changed: effect != Effect::None, old }, effect)
    }
}

/// One write.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Of which key.
    pub key: u64,
    /// What is wanted.
    pub intent: Intent,
    /// The value to store, if one is stored.
    pub value: u64,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the tree changed.
    pub changed: bool,
    /// The value the key had, if it was there.
    pub old: Option<u64>,
}

impl Outcome {
    /// How many keys more the tree has after a write of this intent.
    #[inline(always)]
    pub(crate) fn growth(self, intent: Intent) -> i64 {
        match self {
            Outcome { changed: true, old: None } => 1,
            Outcome { changed: true, .. } if intent.removes() => -1,
            _ => 0,
        }
    }

    /// What a compare-and-exchange with this outcome found.
    #[inline(always)]
    pub fn exchange(self) -> Exchange {
        match self {
            Outcome { changed: true, .. } => Exchange::Done,
            Outcome { old: Some(other), .. } => Exchange::Mismatch(other),
            Outcome { old: None, .. } => Exchange::Absent,
        }
    }
}

/// What is to be done with the key of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// The key gets the value of the write.
    Put,
    /// The key goes.
    Delete,
}

impl Change {
    /// As [`Intent::decide`].
    #[inline(always)]
    pub fn decide(&self, old: Option<u64>) -> (Outcome, Effect) {
        self.intent.decide(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_intent_has_its_effect_on_present_and_absent_keys() {
        let cases = [
            (Intent::Insert, Effect::Put, Effect::None),
            (Intent::Update, Effect::None, Effect::Put),
            (Intent::Upsert, Effect::Put, Effect::Put),
            (Intent::Remove, Effect::None, Effect::Delete),
            (Intent::Exchange(5), Effect::None, Effect::Put),
            (Intent::Exchange(6), Effect::None, Effect::None),
            (Intent::RemoveExact(5), Effect::None, Effect::Delete),
            (Intent::RemoveExact(6), Effect::None, Effect::None),
        ];
        for (intent, absent, present) in cases {
            let change = Change { key: 1, intent, value: 9 };
            for (old, effect) in [(None, absent), (Some(5), present)] {
                let outcome = Outcome { changed: effect != Effect::None, old };
                assert_eq!(change.decide(old), (outcome, effect), "{intent:?} on {old:?}");
            }
        }
    }
}
