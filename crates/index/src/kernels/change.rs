//! What a write wants, and what it does to a key.

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
}

/// One write.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub key: u64,
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
    /// Outcome and effect on a key that has the value `old`, or is absent.
    #[inline(always)]
    pub fn decide(&self, old: Option<u64>) -> (Outcome, Effect) {
        let effect = match (self.intent, old) {
            (Intent::Insert, None) | (Intent::Upsert, _) | (Intent::Update, Some(_)) => Effect::Put,
            (Intent::Remove, Some(_)) => Effect::Delete,
            (Intent::Exchange(expected), Some(value)) if value == expected => Effect::Put,
            _ => Effect::None,
        };
        (Outcome { changed: effect != Effect::None, old }, effect)
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
