//! Opening: the global tree as it is, and the table of pending keys from the future objects. What
//! was acknowledged is found from the first call on; it is evaluated when it is anyway.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::{Design, IndexError, PoolBase, RootObject};
use everleaf_machine::{Atomic, Machine, SpinLock};

use super::F3Tree;
use super::front::Front;
use super::layout::{
    DRAINED_WORD, FRONT_WORD, GLOBAL_WORD, Objects, SEQUENCE_END, TAG, VARIANT_WORD, sealed,
    unsealed,
};
use super::pending::{Pending, Table};
use super::state::EntryState;
use super::variant::Variant;
use crate::fast_fair::FastFair;

impl<V: Variant, M: Machine> F3Tree<V, M> {
    pub(super) fn create_in(session: &mut Session<M>) -> Result<Self, IndexError> {
        let root_object = RootObject::create(session, TAG)?;
        let global = match FastFair::create(session) {
            Ok(global) => global,
            Err(error) => {
                root_object.free(session);
                return Err(error);
            }
        };
        root_object.word(VARIANT_WORD).write_private(u64::from(V::KIND));
        root_object.word(GLOBAL_WORD).write_private(u64::from(global.root_value()));
        root_object.word(DRAINED_WORD).write_private(sealed(1));
        // Persist: the root object before the directory names the tree.
        session.medium().persist(root_object.word(0).as_ptr(), 64);
        Ok(Self::assemble(session, root_object, global, 1))
    }

    pub(super) fn open_in(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        threads: usize,
    ) -> Result<Self, IndexError> {
        let root_object = RootObject::open(session.heap(), recovery, root, TAG)?;
        let found = root_object.word(VARIANT_WORD).read_private();
        let root = u32::try_from(root_object.word(GLOBAL_WORD).read_private());
        let (true, Ok(root)) = (found == u64::from(V::KIND), root) else {
            let what = format!("a tree's root object is of variant {found} instead of {}", V::KIND);
            return Err(AllocError::Corrupt { offset: 0, what }.into());
        };
        let word = root_object.word(DRAINED_WORD).read_private();
        let Some(drained) = unsealed(word) else {
            let what = format!("a tree's root object says that {word:#x} entries are evaluated");
            return Err(AllocError::Corrupt { offset: 0, what }.into());
        };
        let global = FastFair::recover(session, recovery, root, threads)?;
        let mut tree = Self::assemble(session, root_object, global, drained);
        tree.find_objects(recovery)?;
        tree.find_pending()?;
        Ok(tree)
    }

    fn assemble(
        session: &Session<M>,
        root_object: RootObject<M>,
        global: FastFair<V::Global, M>,
        drained: u64,
    ) -> Self {
        let () = Self::FITS;
        F3Tree {
            root_object,
            global,
            objects: Objects::new(PoolBase::of(session.heap()), session.medium(), V::OBJECT_SIZE),
            fronts: (0..V::FRONTS).map(|_| SpinLock::new(Front::default())).collect(),
            table: Table::new(V::SHARDS, V::SHARD_SHIFT, drained),
            clock: Atomic::new(drained),
            drained: Atomic::new(drained),
            direct: Atomic::new(0),
            other_objects: Atomic::new(0),
            advance: SpinLock::new(()),
            direct_turn: SpinLock::new(()),
            heap: session.heap().clone(),
        }
    }

    /// The word that refers to the newest object of a front.
    pub(super) fn head(&self, front: usize) -> &Atomic<u64, M> {
        self.root_object.word(FRONT_WORD + front)
    }

    /// Lists the objects of all fronts, and marks them as in use.
    fn find_objects(&mut self, recovery: &Recovery<M>) -> Result<(), AllocError> {
        let mut count = 0;
        for index in 0..V::FRONTS {
            let mut found = vec![];
            let mut object = self.head(index).read_private();
            while object != 0 {
                self.objects.check_place(object)?;
                // An object that is there twice is refused: no list goes round.
                recovery.mark_record(object, V::OBJECT_SIZE)?;
                found.push(object);
                object = self.objects.next(object).read_private();
            }
            count += found.len().saturating_sub(1) as u64;
            found.reverse();
            self.fronts[index].get_mut().objects = found;
        }
        self.other_objects.write_private(count);
        Ok(())
    }

    /// Puts the newest entry of each key into the table.
    fn find_pending(&mut self) -> Result<(), AllocError> {
        if M::mutant("f3.serves_at_once") {
            return Ok(());
        }
        let drained = self.drained.read_private();
        let mut clock = drained;
        for index in 0..V::FRONTS {
            let objects = std::mem::take(&mut self.fronts[index].get_mut().objects);
            for entry in Self::entries(&objects) {
                let stamp = self.objects.stamp(entry);
                if EntryState::of(stamp, drained) == EntryState::Free {
                    continue;
                }
                clock = clock.max(stamp.sequence() + 1);
                let (key, value) = self.objects.pair(entry);
                if stamp.sequence() >= SEQUENCE_END || Self::INFO.check_value(value).is_err() {
                    let what = "a future object has an entry that nobody wrote".to_string();
                    return Err(AllocError::Corrupt { offset: entry, what });
                }
                let mut shard = self.table.shard(key).lock();
                let newest = shard.keys().get(&key).map(|pending| pending.stamp.sequence());
                if newest.is_none_or(|newest| newest < stamp.sequence()) {
                    shard.keys().insert(key, Pending { stamp, value, entry });
                }
            }
            self.fronts[index].get_mut().objects = objects;
        }
        self.clock.write_private(clock);
        Ok(())
    }

    /// Where the entries of objects are.
    pub(super) fn entries(objects: &[u64]) -> impl Iterator<Item = u64> {
        objects
            .iter()
            .flat_map(|object| (0..V::ENTRIES).map(|index| Objects::<M>::entry(*object, index)))
    }

    /// Gives everything back; nobody can reach the tree any more.
    pub(super) fn free_everything(&self, session: &mut Session<M>) {
        for front in &self.fronts {
            for object in &front.lock().objects {
                session.free_record(*object, V::OBJECT_SIZE);
            }
        }
        everleaf_index::OrderedIndex::free_all(&self.global, session);
        self.root_object.free(session);
    }
}
