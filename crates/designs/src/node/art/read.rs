//! The search for the greatest key that is not above another.

use everleaf_index::Geometry;
use everleaf_machine::{Machine, Ordering};

use super::Art;
use super::node::{Child, Head, Node};
use super::shape::GENERATION;
use crate::node::version_lock::{Retry, Version};

/// Nodes on a way down, at most: one for each digit of the smallest shape, and the root.
const DEPTH_MAX: usize = 17;

/// A node that the answer depends on.
struct Step<M: Machine> {
    /// Null for the root.
    node: *mut Head<M>,
    /// Under which it was read.
    version: Version,
    /// The digit at which the way goes on.
    digit: usize,
}

impl<M: Machine> Clone for Step<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Step<M> {}

/// The way down to where a key is, or would be.
struct Trail<M: Machine> {
    steps: [Step<M>; DEPTH_MAX],
    length: usize,
}

impl<M: Machine> Trail<M> {
    #[inline(always)]
    fn new(root: Version) -> Self {
        let root = Step { node: std::ptr::null_mut(), version: root, digit: 0 };
        Trail { steps: [root; DEPTH_MAX], length: 1 }
    }

    #[inline(always)]
    fn push(&mut self, step: Step<M>) {
        self.steps[self.length] = step;
        self.length += 1;
    }

    /// The steps from the one of this number on.
    #[inline(always)]
    fn steps_from(&self, first: usize) -> &[Step<M>] {
        &self.steps[first..self.length]
    }
}

impl<G: Geometry, M: Machine> Art<G, M> {
    /// The value of the greatest key that is not above `key`. The caller is pinned; `key_of` gives the key of a value.
    ///
    /// *Linearizes at* the moment when all was read that the answer depends on: the validation that follows finds it
    /// unchanged.
    #[inline]
    pub fn find_le(&self, key: u64, key_of: impl Fn(u64) -> u64) -> Option<u64> {
        let mut attempt = 0;
        loop {
            match self.try_find_le(key, &key_of) {
                Ok(found) => return found,
                Err(retry) => retry.pause::<M>(&mut attempt),
            }
            M::mark("art.find_again");
        }
    }

    #[inline(always)]
    fn try_find_le(&self, key: u64, key_of: &impl Fn(u64) -> u64) -> Result<Option<u64>, Retry> {
        let mut trail = Trail::new(self.lock.stable_or_wait(GENERATION)?);
        // Acquire: the node is complete; pairs with the release in `ChildSlot::put`.
        let mut child = Child::of(self.root.load(Ordering::Acquire));
        loop {
            // The number of the step at which what is before the key hangs, and that.
            let before = match child {
                // Only the root has nothing; a place in a node that changes may.
                Child::Empty if trail.length > 1 => return Err(Retry::Now),
                Child::Empty => None,
                Child::Value(value) if key_of(value) <= key => {
                    // It is the only one at its digits: nothing above has to be as it was.
                    self.validate(trail.steps_from(trail.length - 1))?;
                    return Ok(Some(value));
                }
                Child::Value(_) => self.before(&trail),
                Child::Node(pointer) => {
                    let node = self.node(pointer);
                    match node.header().compare(key) {
                        std::cmp::Ordering::Less => Some((trail.length - 1, child)),
                        std::cmp::Ordering::Greater => self.before(&trail),
                        std::cmp::Ordering::Equal => {
                            let version = node.lock().stable_or_wait(GENERATION)?;
                            let digit = node.digit(key);
                            trail.push(Step { node: pointer, version, digit });
                            match node.at_most(digit) {
                                Some((found, place)) => {
                                    let next = Node::<G, M>::child(place);
                                    if found == digit {
                                        child = next;
                                        continue;
                                    }
                                    Some((trail.length - 1, next))
                                }
                                None => self.before(&trail),
                            }
                        }
                    }
                }
            };
            return self.last_before(&trail, before);
        }
    }

    /// The last place on the left of the way, and the step at which it is.
    #[inline(always)]
    fn before(&self, trail: &Trail<M>) -> Option<(usize, Child<M>)> {
        if M::mutant("art.no_way_back") {
            return None;
        }
        let numbered = trail.steps[..trail.length].iter().enumerate().skip(1);
        numbered.rev().find_map(|(number, step)| {
            let (_, place) = self.node(step.node).below(step.digit)?;
            M::mark("art.way_back");
            Some((number, Node::<G, M>::child(place)))
        })
    }

    /// The greatest value of what is before a key; nothing on the way from there to where the key would be may have
    /// changed when that is found.
    #[inline(always)]
    fn last_before(
        &self,
        trail: &Trail<M>,
        before: Option<(usize, Child<M>)>,
    ) -> Result<Option<u64>, Retry> {
        let (first, found) = match before {
            None => (0, None),
            Some((number, child)) => (number, Some(self.last_below(child)?)),
        };
        if found.is_none() || !M::mutant("art.forgets_way") {
            self.validate(trail.steps_from(first))?;
        }
        Ok(found)
    }

    /// The greatest value below a place.
    fn last_below(&self, child: Child<M>) -> Result<u64, Retry> {
        match child {
            // A place in a node that changes.
            Child::Empty => Err(Retry::Now),
            Child::Value(value) => Ok(value),
            Child::Node(pointer) => {
                let node = self.node(pointer);
                let version = node.lock().stable_or_wait(GENERATION)?;
                let place = node.last().ok_or(Retry::Now)?;
                let last = self.last_below(Node::<G, M>::child(place))?;
                // Behind all that is below it: what was read is good together.
                self.validate(&[Step { node: pointer, version, digit: 0 }])?;
                Ok(last)
            }
        }
    }

    /// Makes sure that these nodes are in the tree and as they were read (A1, A4).
    #[inline(always)]
    fn validate(&self, steps: &[Step<M>]) -> Result<(), Retry> {
        let is_same = |step: &Step<M>| {
            let lock = match step.node.is_null() {
                true => &self.lock,
                false => self.node(step.node).lock(),
            };
            lock.validate(GENERATION, step.version)
        };
        if M::mutant("art.no_validation") || steps.iter().all(is_same) {
            Ok(())
        } else {
            Err(Retry::Now)
        }
    }
}
