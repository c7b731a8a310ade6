//! An allocator that is known by its name: a program that has one chooses it when it runs, and is compiled
//! once for all of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_machine::{Atomic, Hardware, LINE_SIZE, Machine};

use super::{
    Allocator, Calloc, Everleaf, Naive, NvAllocLike, NvmMallocLike, PmdkLike, Promise, Shape,
};

macro_rules! allocators {
    ($($number:literal $allocator:ident,)*) => {
        /// One of the allocators. The calls are those of the trait.
        pub enum AnyAllocator<M: Machine> {
            $(
                #[doc = concat!("[`", stringify!($allocator), "`].")]
                $allocator($allocator<M>),
            )*
        }

        /// The names of all allocators.
        pub fn names() -> Vec<&'static str> {
            vec![$(<$allocator<Hardware> as Allocator<Hardware>>::NAME),*]
        }

        /// The number in pools of the allocator of that name; `None` if there is none.
        pub fn number_of(name: &str) -> Option<u64> {
            $(if <$allocator<Hardware> as Allocator<Hardware>>::NAME == name {
                return Some($number);
            })*
            None
        }

        impl<M: Machine> AnyAllocator<M> {
            /// The shape of a space of the allocator of that number for so many blocks. A space that is
            /// smaller than a chunk is one chunk. `None` if there is no such allocator.
            pub fn shape(
                number: u64,
                block_bytes: usize,
                blocks: usize,
                threads: usize,
            ) -> Option<Shape> {
                match number {
                    $($number => {
                        let header = $allocator::<M>::LINES.of_chunk * LINE_SIZE;
                        let most = $allocator::<M>::CHUNK_BYTES;
                        let chunk_bytes = most.min(header + blocks.max(1) * block_bytes);
                        let in_chunk = (chunk_bytes - header) / block_bytes;
                        let chunks = blocks.div_ceil(in_chunk).max(1);
                        Some(Shape { block_bytes, chunk_bytes, chunks, threads })
                    })*
                    _ => None,
                }
            }

            /// A new allocator of that number; `None` if there is none.
            ///
            /// # Errors
            /// No space.
            pub fn create(
                number: u64,
                session: &mut Session<M>,
                shape: Shape,
            ) -> Result<Option<Self>, AllocError> {
                Ok(match number {
                    $($number => Some(Self::$allocator($allocator::create(session, shape)?)),)*
                    _ => None,
                })
            }

            /// The allocator of that number in a pool that is being opened; `None` if there is none.
            ///
            /// # Errors
            /// It is not at that place.
            pub fn open(
                number: u64,
                heap: &Arc<Heap<M>>,
                recovery: &Recovery<M>,
                root: u64,
                shape: Shape,
            ) -> Result<Option<Self>, AllocError> {
                Ok(match number {
                    $($number => {
                        Some(Self::$allocator($allocator::open(heap, recovery, root, shape)?))
                    })*
                    _ => None,
                })
            }

            /// What a crash leaves.
            pub fn promise(&self) -> Promise {
                match self {
                    $(Self::$allocator(_) => <$allocator<M> as Allocator<M>>::PROMISE,)*
                }
            }

            /// [`Allocator::root`].
            pub fn root(&self) -> u64 {
                match self { $(Self::$allocator(this) => this.root(),)* }
            }

            /// [`Allocator::keep`].
            pub fn keep(&mut self, used: &BTreeSet<u64>) {
                match self { $(Self::$allocator(this) => this.keep(used),)* }
            }

            /// [`Allocator::mark`].
            ///
            /// # Errors
            /// As there.
            pub fn mark(
                &self,
                recovery: &Recovery<M>,
                used: &BTreeSet<u64>,
            ) -> Result<(), AllocError> {
                match self { $(Self::$allocator(this) => this.mark(recovery, used),)* }
            }

            /// [`Allocator::is_block`].
            pub fn is_block(&self, recovery: &Recovery<M>, block: u64) -> bool {
                match self { $(Self::$allocator(this) => this.is_block(recovery, block),)* }
            }

            /// [`Allocator::holds`].
            pub fn holds(&self, block: u64) -> bool {
                match self { $(Self::$allocator(this) => this.holds(block),)* }
            }

            /// [`Allocator::held`].
            pub fn held(&self) -> Vec<u64> {
                match self { $(Self::$allocator(this) => this.held(),)* }
            }

            /// [`Allocator::reserve`].
            ///
            /// # Errors
            /// As there.
            pub fn reserve(&self, session: &mut Session<M>) -> Result<u64, AllocError> {
                match self { $(Self::$allocator(this) => this.reserve(session),)* }
            }

            /// [`Allocator::cancel`].
            pub fn cancel(&self, session: &mut Session<M>, block: u64) {
                match self { $(Self::$allocator(this) => this.cancel(session, block),)* }
            }

            /// [`Allocator::activate`].
            pub fn activate(
                &self,
                session: &mut Session<M>,
                block: u64,
                destination: &Atomic<u64, M>,
            ) {
                match self {
                    $(Self::$allocator(this) => this.activate(session, block, destination),)*
                }
            }

            /// [`Allocator::free_from`].
            pub fn free_from(&self, session: &mut Session<M>, destination: &Atomic<u64, M>) {
                match self { $(Self::$allocator(this) => this.free_from(session, destination),)* }
            }

            /// [`Allocator::check`].
            pub fn check(&self, used: &BTreeSet<u64>) -> Vec<String> {
                match self { $(Self::$allocator(this) => this.check(used),)* }
            }

            /// [`Allocator::free_all`].
            pub fn free_all(&self, session: &mut Session<M>) {
                match self { $(Self::$allocator(this) => this.free_all(session),)* }
            }
        }
    };
}

// Numbers are in pools and never change. The paper's own is the first.
allocators! {
    6 Calloc,
    1 Everleaf,
    2 Naive,
    3 PmdkLike,
    4 NvmMallocLike,
    5 NvAllocLike,
}
