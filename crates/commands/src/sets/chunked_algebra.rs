//! Unions, intersections and differences of large sets, worked out and replied in chunks.
//!
//! The result is of the moment when the command ran, but is not computed in that moment: no large set is copied, and no
//! shard is held for longer than a piece takes. [Snapshot iterators](structures::snapshot_iterator) retain the sets as
//! they were; a set in a compact form is copied.
//!
//! ```text
//!   inputs    one is walked through, a piece at a time; the others are asked about its members, as they were
//!   members   of the result, as they will be sent       chunks of a few kilobytes
//!   reply     their number, then the chunks
//! ```
//!
//! | | walked through | a member is in the result when |
//! | --- | --- | --- |
//! | intersection | the smallest | all others have it |
//! | difference | the first | no other has it |
//! | union | each, from the largest on | none before has it |

use crate::core::context::{Context, Flow, Resumable};
use crate::sets::set::reply_member;
use engine::Error;
use engine::data::value::{Collection, Object, Value};
use engine::keyspace::keys::{Key, Keys};
use engine::snapshot::streamed_reply::{Lister, StreamedReply};
use resp::{Protocol, Reply};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use structures::listpack::Item;
use structures::set::Set;
use structures::snapshot_iterator::TableSnapshotIterator;

/// Members that are looked up at once, at most; a larger operation is chunked.
pub const AT_ONCE: usize = 10_000;
/// Members that are walked through in one piece.
const PIECE: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SetOperation {
    Union,
    Intersection,
    Difference,
}

/// Begins an operation. The keys hold sets; they are in the order in which the operation reads them.
pub fn begin(cx: &mut Context<'_>, operation: SetOperation, names: &[Key<'_>]) {
    let protocol = cx.reply.protocol();
    let inputs = names.iter().filter_map(|key| Input::begin(&mut cx.keys, *key, protocol)).collect();
    let chunks = VecDeque::new();
    cx.flow = Flow::more(Job { operation, inputs, walked: 0, piece: None, chunks, count: 0, replies: false });
}

struct Job {
    operation: SetOperation,
    inputs: Vec<Input>,
    /// The input that is walked through.
    walked: usize,
    /// Members of that input that are still to be looked up in some of the others.
    piece: Option<Piece>,
    chunks: VecDeque<Reply>,
    count: usize,
    replies: bool,
}

struct Piece {
    members: Vec<Vec<u8>>,
    /// Whether no more members follow.
    is_last: bool,
    /// The next input to look them up in.
    asked: usize,
}

impl Resumable for Job {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.replies {
            let went = self.work(cx).map(|()| false);
            return cx.ends(went);
        }
        if let Some(chunk) = self.chunks.pop_front() {
            cx.reply.raw(chunk.as_slice());
        }
        self.chunks.is_empty()
    }
}

impl Job {
    fn work(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let (others, wanted) = match self.operation {
            SetOperation::Union => (0..self.walked, false),
            SetOperation::Intersection => (1..self.inputs.len(), true),
            SetOperation::Difference => (1..self.inputs.len(), false),
        };
        if self.piece.is_none() {
            let (members, is_last) = match self.inputs.get_mut(self.walked) {
                Some(input) => input.piece(&mut cx.keys)?,
                None => (Vec::new(), true),
            };
            self.piece = Some(Piece { members, is_last, asked: others.start });
        }
        if let Some(piece) = &mut self.piece {
            while piece.asked < others.end {
                self.inputs[piece.asked].retain(&mut cx.keys, &mut piece.members, wanted)?;
                piece.asked += 1;
            }
        }
        let Some(Piece { members, is_last, .. }) = self.piece.take() else { return Ok(()) };
        if !members.is_empty() {
            let mut chunk = Reply::new(Vec::new(), cx.reply.protocol());
            members.iter().for_each(|member| reply_member(&mut chunk, Item::Bytes(member)));
            self.count += members.len();
            self.chunks.push_back(chunk);
        }
        if !is_last {
            return Ok(());
        }
        self.walked += 1;
        if self.operation != SetOperation::Union || self.walked >= self.inputs.len() {
            self.inputs.drain(..).for_each(|input| input.end(&mut cx.keys));
            cx.reply.set(self.count);
            self.replies = true;
        }
        Ok(())
    }
}

/// A set as it was at the beginning.
enum Input {
    Table { listing: Arc<StreamedReply>, walks: SnapshotIterators },
    Copy { set: Set, is_shown: bool },
}

/// Two walks from the beginning: one shows the members, the other stays there, for lookups.
#[derive(Clone)]
struct SnapshotIterators {
    shows: Arc<TableSnapshotIterator>,
    stays: Arc<TableSnapshotIterator>,
}

/// Follows a set; its walks go into the shared cell, where lookups find them.
struct Follower(Arc<OnceLock<SnapshotIterators>>);

impl Lister for Follower {
    fn begin(&mut self, object: &mut Object) -> bool {
        let begin = |set: &mut Set| Some(SnapshotIterators { shows: set.begin_walk()?, stays: set.begin_walk()? });
        Set::of_mut(object).and_then(begin).is_some_and(|walks| self.0.set(walks).is_ok())
    }

    /// Writes nothing: a follower writes no list of its set.
    fn piece(&mut self, _object: &Object, _max: usize, _reply: &mut Reply) -> bool {
        true
    }
}

impl Input {
    fn begin(keys: &mut Keys<'_>, key: Key<'_>, protocol: Protocol) -> Option<Self> {
        if let Some(Value::Payload(Object::Set(set @ (Set::Ints(_) | Set::Small(_))))) = keys.together(key) {
            return Some(Input::Copy { set: set.clone(), is_shown: false });
        }
        let begun = Arc::<OnceLock<SnapshotIterators>>::default();
        let listing = StreamedReply::begin(keys, key, protocol, Box::new(Follower(Arc::clone(&begun))))?;
        Some(Input::Table { listing, walks: begun.get()?.clone() })
    }

    /// Returns some more members, and whether they were the last.
    fn piece(&mut self, keys: &mut Keys<'_>) -> Result<(Vec<Vec<u8>>, bool), Error> {
        let mut members = Vec::with_capacity(PIECE);
        let done = match self {
            Input::Copy { set, is_shown } => {
                if !std::mem::replace(is_shown, true) {
                    members.extend(set.iter().map(|member| member.to_vec()));
                }
                true
            }
            Input::Table { listing, walks } => listing.with(keys, |object| {
                let set = object.and_then(Set::of);
                set.is_none_or(|set| set.walk_piece(&walks.shows, PIECE, |member| members.push(member.to_vec())))
            })?,
        };
        Ok((members, done))
    }

    /// Retains the `members` that this set had, or those that it had not.
    fn retain(&self, keys: &mut Keys<'_>, members: &mut Vec<Vec<u8>>, wanted: bool) -> Result<(), Error> {
        match self {
            Input::Copy { set, .. } => members.retain(|member| set.contains(member) == wanted),
            Input::Table { listing, walks } => listing.with(keys, |object| {
                if let Some(set) = object.and_then(Set::of) {
                    set.prefetch(members.iter().map(Vec::as_slice));
                    members.retain(|member| walks.stays.had(member, set.contains(member)) == wanted);
                }
            })?,
        }
        Ok(())
    }

    fn end(self, keys: &mut Keys<'_>) {
        if let Input::Table { listing, .. } = self {
            listing.end(keys);
        }
    }
}
