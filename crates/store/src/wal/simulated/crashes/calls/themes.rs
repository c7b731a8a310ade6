//! What two threads do that have to do with each other.

use super::batch::{Effect, Must, Part};
use super::draw::Draw;
use super::{Call, NAMES, State, What};

/// The number of the views and watches of the second thread.
pub const SECOND_ID: usize = 3;

impl Draw {
    /// Calls of two threads that are likely to get in each other's way. Where nothing is said of one, its calls are
    /// any.
    pub fn theme(&mut self, state: &State, now_ms: u64) -> [Option<Vec<Call>>; 2] {
        match self.random.below(12) {
            0 => [Some(vec![self.write_seen(now_ms)]), Some(self.look_twice(SECOND_ID))],
            1 => {
                let second = self.random.one_in(2).then(|| vec![self.write_seen(now_ms)]);
                [Some(self.look_twice(0)), second]
            }
            2 => {
                let watched = self.key();
                let first = self.maybe_write(state, &watched, now_ms);
                [first, Some(self.write_unwritten(SECOND_ID, watched, now_ms))]
            }
            3 => {
                let watched = self.key();
                let second = self.maybe_write(state, &watched, now_ms);
                [Some(self.write_unwritten(0, watched, now_ms)), second]
            }
            4 | 5 => self.each_other(state, now_ms).map(Some),
            6 => {
                let emptied = match self.random.below(3) {
                    0 => Call::Clear(NAMES[0].to_string()),
                    1 => Call::Clear(NAMES[1].to_string()),
                    _ => Call::Drop(NAMES[2].to_string()),
                };
                [Some(vec![emptied]), None]
            }
            7 => {
                let first = self.random.one_in(2).then(|| vec![self.of_several()]);
                [first, Some(vec![self.of_several(), self.of_several()])]
            }
            8 => self.pop_what_changes(state, now_ms).map(Some),
            9 => {
                let first = self.random.one_in(2).then(|| vec![Call::Snapshot]);
                [first, Some(self.begin_again())]
            }
            _ => [None, None],
        }
    }

    /// A write of what views look at.
    fn write_seen(&mut self, now_ms: u64) -> Call {
        let (name, key) = (NAMES[0].to_string(), self.key());
        let (value, expiry_ms) = (self.value(&key), self.expiry_ms(now_ms));
        if self.random.one_in(2) {
            return Call::Key { name, key, what: What::Put(value, expiry_ms) };
        }
        let effect = Effect::Put(value, expiry_ms);
        Call::Batch(vec![Part::Change { name, key, effect }])
    }

    /// A view that is read twice.
    fn look_twice(&mut self, id: usize) -> Vec<Call> {
        let names = vec![NAMES[0].to_string()];
        let read = |draw: &mut Draw| Call::ReadView { id, way: draw.random.below(5) as u8 };
        vec![Call::OpenView { id, names }, read(self), read(self)]
    }

    /// A write of a key that the other watches, of any kind; or nothing is said.
    fn maybe_write(&mut self, state: &State, key: &[u8], now_ms: u64) -> Option<Vec<Call>> {
        let what = self.what(state, (NAMES[0], key), now_ms);
        let call = Call::Key { name: NAMES[0].to_string(), key: key.to_vec(), what };
        self.random.one_in(2).then(|| vec![call])
    }

    /// A batch that depends on a key not having been written since it is watched.
    fn write_unwritten(&mut self, id: usize, watched: Vec<u8>, now_ms: u64) -> Vec<Call> {
        let (name, key) = (self.name(), self.key());
        let effect = Effect::Put(self.value(&key), self.expiry_ms(now_ms));
        let batch = vec![Part::Unwritten(id), Part::Change { name, key, effect }];
        vec![Call::Watch { id, key: watched }, Call::Batch(batch)]
    }

    /// A pop, and writes of its map.
    fn pop_what_changes(&mut self, state: &State, now_ms: u64) -> [Vec<Call>; 2] {
        let (name, is_last) = (self.name(), self.random.one_in(2));
        let writes = (0..1 + self.random.below(2)).map(|_| {
            let (name, key) = (name.clone(), self.key());
            let what = self.what(state, (&name, &key), now_ms);
            Call::Key { name, key, what }
        });
        let writes = writes.collect();
        [vec![Call::Pop { name, is_last }], writes]
    }

    /// A map that is emptied, or goes and comes again, and what is written there behind that.
    fn begin_again(&mut self) -> Vec<Call> {
        let name = NAMES[self.random.below(3)].to_string();
        let mut calls = match name == NAMES[2] {
            true => vec![Call::Drop(name.clone()), Call::Make(name.clone())],
            false => vec![Call::Clear(name.clone())],
        };
        for _ in 0..1 + self.random.below(2) {
            let key = self.key();
            let what = What::Put(self.value(&key), 0);
            calls.push(Call::Key { name: name.clone(), key, what });
        }
        calls
    }

    /// Each changes what the other depends on.
    fn each_other(&mut self, state: &State, now_ms: u64) -> [Vec<Call>; 2] {
        let places = [0, 1].map(|_| (NAMES[self.random.below(2)].to_string(), self.key()));
        [0, 1].map(|thread| {
            let ((of, by), (name, key)) = (places[thread].clone(), places[1 - thread].clone());
            let value = state.live(&of, &by, now_ms).map(|kept| kept.value.clone());
            if thread == 1 && self.random.one_in(3) {
                let what = What::Put(self.value(&key), 0);
                return vec![Call::Key { name, key, what }];
            }
            let condition = Part::Condition { name: of, key: by, must: Must::Have(value) };
            let effect = Effect::Put(self.value(&key), self.expiry_ms(now_ms));
            vec![Call::Batch(vec![condition, Part::Change { name, key, effect }])]
        })
    }
}
