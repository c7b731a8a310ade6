//! Reading a node without its lock.
//!
//! A reader notes the switch, reads against the direction in which records move, and reads again if
//! the switch has changed. A record is taken only if its key is the same before and after its word
//! and the word to its left were read: within one direction a slot's key changes monotonically, so
//! word and key then belong together.

use everleaf_alloc::AllocError;
use everleaf_machine::{Machine, Ordering};

use super::{
    COUNT_MASK, DELETED, GENERATION_MASK, HELD, LEVEL_SHIFT, MENDING, MOVED, Node, NodeShape,
    Nodes, SWITCH_ONE, UNCUT, UNREAD, VERSION_MASK, slots,
};

/// What a reader finds in a node.
pub(crate) enum Seen<S, M: Machine> {
    /// The word that the key leads to.
    Word(u64),
    /// A leaf without the key.
    Absent,
    /// The key belongs to this node on the right.
    Right(Node<S, M>),
    /// The node has left the tree.
    Gone,
}

/// A reader's view of a node.
struct View {
    /// The state's version.
    version: u64,
    count: usize,
    odd: bool,
    /// The lock word, if the node is unread in this opening of the pool.
    unread: Option<u64>,
}

/// What a pass over the records came to.
struct Pass {
    word: Option<u64>,
    /// Whether there was a key greater than the wanted one.
    greater: bool,
}

impl<S: NodeShape, M: Machine> Nodes<S, M> {
    /// Begins reading; `None` if the node has left the tree.
    #[inline(always)]
    fn view(&self, node: Node<S, M>) -> Option<View> {
        let mut attempt = 0;
        loop {
            // Acquire: the records are as their last holder left them; pairs with `unlock`.
            let lock = node.lock_word().load(Ordering::Acquire);
            let ours = lock & GENERATION_MASK == self.generation;
            let wait = if S::BINARY { HELD } else { MENDING };
            if ours && lock & wait != 0 {
                M::spin(attempt);
                attempt += 1;
                continue;
            }
            // Acquire: the records of this version or later; pairs with the release stores of it.
            let state = node.state_word().load(Ordering::Acquire);
            if state & DELETED != 0 {
                return None;
            }
            return Some(View {
                version: state & VERSION_MASK,
                count: (state & COUNT_MASK) as usize,
                odd: state & SWITCH_ONE != 0,
                unread: (!ours || lock & UNREAD != 0).then_some(lock),
            });
        }
    }

    /// Whether what was read since the view began is right.
    #[inline(always)]
    fn holds(&self, node: Node<S, M>, view: &View) -> bool {
        if M::mutant("fast_fair.no_recheck") {
            return true;
        }
        // Acquire: the loads before it are acquire loads, too, so it is not earlier than what they saw;
        // pairs with the release stores of the state.
        let same = node.state_word().load(Ordering::Acquire) & VERSION_MASK == view.version;
        // Acquire: pairs with the stores of the lock word. Nobody has mended the node meanwhile.
        same && view.unread.is_none_or(|lock| node.lock_word().load(Ordering::Acquire) == lock)
    }

    /// What a key leads to: in an inner node the child, in a leaf its word.
    #[inline(always)]
    pub fn seek(&self, node: Node<S, M>, key: u64) -> Result<Seen<S, M>, AllocError> {
        loop {
            let Some(view) = self.view(node) else { return Ok(Seen::Gone) };
            let leaf = view.version >> LEVEL_SHIFT & 0xFF == 0;
            let pass = match (S::BINARY && view.unread.is_none(), leaf) {
                (true, _) => halve(node, key, view.count, leaf),
                (false, true) => find_equal(node, key, &view),
                (false, false) => find_child(node, key, &view),
            };
            // Acquire: the sibling is complete; pairs with the stores of the word.
            let sibling = node.sibling().load(Ordering::Acquire);
            let certain = pass.greater || leaf && pass.word.is_some();
            if !certain || view.unread.is_some() || sibling & UNCUT != 0 {
                let next = self.follow(sibling)?;
                if let Some(next) = next.filter(|next| self.is_right(*next, key)) {
                    if self.holds(node, &view) {
                        return Ok(Seen::Right(next));
                    }
                    continue;
                }
            }
            if self.holds(node, &view) {
                return Ok(pass.word.map_or(Seen::Absent, Seen::Word));
            }
        }
    }

    /// Whether a key belongs to this right sibling or beyond.
    #[inline(always)]
    pub fn is_right(&self, next: Node<S, M>, key: u64) -> bool {
        if M::mutant("fast_fair.stays_left") {
            return false;
        }
        if S::LOW_FENCE && !M::mutant("fast_fair.first_key") {
            return self.low(next) <= key;
        }
        // As published: what the first record is now, if there is one.
        // Acquire: as in `valid`.
        let first = next.value(0).load(Ordering::Acquire);
        // Acquire: as in `valid`.
        first != 0 && next.key(0).load(Ordering::Acquire) <= key
    }

    /// Appends the records of a leaf from `from` on, ascending, to `found`, and returns the right
    /// sibling; `None` if the leaf has left the tree (and nothing was appended).
    pub fn collect(
        &self,
        node: Node<S, M>,
        from: u64,
        found: &mut Vec<(u64, u64)>,
    ) -> Result<Option<u64>, AllocError> {
        let start = found.len();
        loop {
            found.truncate(start);
            let Some(view) = self.view(node) else { return Ok(None) };
            if view.odd && view.unread.is_none() {
                collect_back(node, from, &view, found);
                found[start..].reverse();
            } else {
                collect_forward(node, from, found);
            }
            // Acquire: as in `seek`.
            let sibling = node.sibling().load(Ordering::Acquire);
            if (view.unread.is_some() || sibling & UNCUT != 0)
                && let Some(next) = self.follow(sibling)?
                && S::LOW_FENCE
            {
                let bound = self.low(next);
                let keep = found[start..].partition_point(|(key, _)| *key < bound);
                found.truncate(start + keep);
            }
            if self.holds(node, &view) {
                return Ok(Some(sibling & !(UNCUT | MOVED)));
            }
        }
    }
}

/// The word of a record if it is valid and still has this key.
#[inline(always)]
fn valid<S: NodeShape, M: Machine>(node: Node<S, M>, slot: usize, key: u64) -> Option<u64> {
    // Acquire, all of them: in this order; the key again at the end, so that a record that moved in
    // between is noticed. Pairs with the release stores in `shift.rs`.
    let left = node.left_of(slot).load(Ordering::Acquire);
    // Acquire: between the word at its left and its key; pairs with `shift.rs`.
    let word = node.value(slot).load(Ordering::Acquire);
    // Acquire: behind the word; pairs with `shift.rs`.
    let same = node.key(slot).load(Ordering::Acquire) == key;
    (word != left && word != 0 && same).then_some(word)
}

/// Looks for a key in a leaf.
#[inline(always)]
fn find_equal<S: NodeShape, M: Machine>(node: Node<S, M>, wanted: u64, view: &View) -> Pass {
    if view.odd && view.unread.is_none() {
        let mut greater = false;
        for slot in (0..view.count).rev() {
            // Acquire: as in `valid`.
            let key = node.key(slot).load(Ordering::Acquire);
            if key > wanted {
                // Acquire: as in `valid`.
                greater |= node.value(slot).load(Ordering::Acquire) != 0;
                continue;
            }
            if key < wanted {
                break;
            }
            if let Some(word) = valid(node, slot, key) {
                return Pass { word: Some(word), greater: true };
            }
        }
        return Pass { word: None, greater };
    }
    for slot in 0..slots::<S>() {
        // Acquire: as in `valid`.
        if node.value(slot).load(Ordering::Acquire) == 0 {
            break;
        }
        // Acquire: as in `valid`.
        let key = node.key(slot).load(Ordering::Acquire);
        if key > wanted {
            return Pass { word: None, greater: true };
        }
        if key == wanted
            && let Some(word) = valid(node, slot, key)
        {
            return Pass { word: Some(word), greater: true };
        }
    }
    Pass { word: None, greater: false }
}

/// Looks for the child of a key. While records move it may be that of a smaller key, never of a
/// greater one: from the left the key is read before the word, and a slot's record only becomes a
/// smaller one; from the right the word before the key, and it only becomes a greater one. From a
/// child that is too far left, siblings lead to the right one.
#[inline(always)]
fn find_child<S: NodeShape, M: Machine>(node: Node<S, M>, wanted: u64, view: &View) -> Pass {
    // Acquire: the child is complete; pairs with the release stores in `shift.rs`, as all here.
    let leftmost = node.leftmost().load(Ordering::Acquire);
    if view.odd && view.unread.is_none() {
        let mut greater = false;
        for slot in (0..view.count).rev() {
            // Acquire: pairs with the release stores in `shift.rs`.
            let word = node.value(slot).load(Ordering::Acquire);
            // Acquire: behind the word; pairs with `shift.rs`.
            let key = node.key(slot).load(Ordering::Acquire);
            if word == 0 {
                continue;
            }
            if key > wanted {
                greater = true;
                continue;
            }
            // Acquire: behind the key; pairs with `shift.rs`.
            if node.left_of(slot).load(Ordering::Acquire) != word {
                return Pass { word: Some(word), greater };
            }
        }
        return Pass { word: Some(leftmost), greater };
    }
    let (mut child, mut left) = (leftmost, leftmost);
    for slot in 0..slots::<S>() {
        // Acquire: pairs with the release stores in `shift.rs`. Behind the end there are keys of former records.
        let early = node.value(slot).load(Ordering::Acquire);
        if early == 0 {
            break;
        }
        // Acquire: behind the early look; pairs with `shift.rs`.
        let key = node.key(slot).load(Ordering::Acquire);
        let word = if M::mutant("fast_fair.word_first") {
            early
        } else {
            // Acquire: behind the key; pairs with `shift.rs`.
            node.value(slot).load(Ordering::Acquire)
        };
        if key > wanted {
            return Pass { word: Some(child), greater: true };
        }
        if word != left {
            child = word;
        }
        left = word;
    }
    Pass { word: Some(child), greater: false }
}

/// Looks for a key, or the child of a key, by halving, in a node that no writer has now.
#[inline(always)]
fn halve<S: NodeShape, M: Machine>(
    node: Node<S, M>,
    wanted: u64,
    count: usize,
    leaf: bool,
) -> Pass {
    let (mut low, mut high) = (0, count.min(slots::<S>() - 1));
    while low < high {
        let middle = usize::midpoint(low, high);
        // Acquire: as in `valid`.
        if node.key(middle).load(Ordering::Acquire) <= wanted {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let greater = low < count;
    // Acquire: as in `valid`, here and below.
    let word = node.left_of(low).load(Ordering::Acquire);
    // Acquire: as in `valid`.
    let found = !leaf || low > 0 && node.key(low - 1).load(Ordering::Acquire) == wanted;
    Pass { word: found.then_some(word), greater }
}

fn collect_forward<S: NodeShape, M: Machine>(
    node: Node<S, M>,
    from: u64,
    found: &mut Vec<(u64, u64)>,
) {
    let mut next = from;
    for slot in 0..slots::<S>() {
        // Acquire: as in `valid`.
        if node.value(slot).load(Ordering::Acquire) == 0 {
            break;
        }
        // Acquire: as in `valid`.
        let key = node.key(slot).load(Ordering::Acquire);
        // A record that moved along with us is met twice.
        if key >= next
            && let Some(word) = valid(node, slot, key)
        {
            found.push((key, word));
            let Some(after) = key.checked_add(1) else { break };
            next = after;
        }
    }
}

/// As `collect_forward`, from the right, descending.
fn collect_back<S: NodeShape, M: Machine>(
    node: Node<S, M>,
    from: u64,
    view: &View,
    found: &mut Vec<(u64, u64)>,
) {
    let mut last = u64::MAX;
    for slot in (0..view.count).rev() {
        // Acquire: as in `valid`.
        let key = node.key(slot).load(Ordering::Acquire);
        // A removed record's slot still has its key, but no word.
        if key > last {
            continue;
        }
        if key < from {
            break;
        }
        if let Some(word) = valid(node, slot, key) {
            found.push((key, word));
            let Some(before) = key.checked_sub(1) else { break };
            last = before;
        }
    }
}
