//! An observer that knows the keyspace by its announcements alone: it has a digest of every key, which has to be that
//! of the keyspace.

use engine::Engine;
use engine::data::value::{KeyEntry, Object, Str, Value, ValueExt};
use engine::propagation::change_observer::{ChangeNote, ChangeObserver, Extent};
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher};
use std::sync::{Arc, Mutex, Weak};
use structures::hash::View;
use structures::stream::{Id, Stream};

/// A key: its database and name.
type Name = (u32, Vec<u8>);

/// A key as it was at this version of its shard; without a digest it was missing.
struct Seen {
    shard: usize,
    version: u64,
    digest: Option<u64>,
}

/// See the module.
pub struct Shadow {
    engine: Weak<Engine>,
    keys: Mutex<BTreeMap<Name, Seen>>,
}

impl Shadow {
    /// Makes the shadow of an engine that is empty.
    pub fn install(engine: &Arc<Engine>) -> Arc<Shadow> {
        let shadow = Arc::new(Shadow { engine: Arc::downgrade(engine), keys: Mutex::default() });
        engine.install_observer(Arc::clone(&shadow) as Arc<dyn ChangeObserver>);
        shadow
    }

    /// Returns the keys that are not as in the keyspace, each with its digests here and there.
    pub fn differences(&self) -> Vec<String> {
        let engine = self.engine.upgrade().expect("the engine is there");
        let mut there: BTreeMap<Name, u64> = BTreeMap::new();
        for index in 0..engine.locks().len() {
            let shard = engine.locks().one(index);
            for (db, part) in shard.dbs.iter() {
                there.extend(part.table.iter().map(|entry| ((db, entry.key().to_vec()), digest(&entry))));
            }
        }
        let keys = self.keys.lock().expect("no panic");
        let here: BTreeMap<&Name, u64> = keys.iter().filter_map(|(name, seen)| Some((name, seen.digest?))).collect();
        let names: std::collections::BTreeSet<&Name> = here.keys().copied().chain(there.keys()).collect();
        let differs = names.into_iter().filter(|name| here.get(name) != there.get(name));
        let shown = |name: &Name| {
            let (db, text) = (name.0, String::from_utf8_lossy(&name.1));
            format!("{text} in {db}: observed {:x?}, there {:x?}", here.get(name), there.get(name))
        };
        differs.map(shown).collect()
    }

    /// Reads one key anew.
    fn refresh(&self, engine: &Engine, shard: usize, db: u32, name: &[u8]) {
        let (version, digest) = {
            let guard = engine.locks().one(shard);
            let found = guard.dbs[db].table.find(engine.hasher().local_of(name), |entry| entry.key() == name);
            (guard.listeners.version(), found.map(|entry| digest(&entry)))
        };
        self.replace((db, name.to_vec()), Seen { shard, version, digest });
    }

    /// Reads all keys of a database in a shard.
    fn walk(&self, engine: &Engine, shard: usize, db: u32) {
        let (version, found) = {
            let guard = engine.locks().one(shard);
            let found = guard.dbs[db].table.iter().map(|entry| (entry.key().to_vec(), digest(&entry)));
            (guard.listeners.version(), found.collect::<Vec<_>>())
        };
        let is_older = |name: &Name, seen: &Seen| name.0 == db && seen.shard == shard && seen.version < version;
        self.keys.lock().expect("no panic").retain(|name, seen| !is_older(name, seen));
        for (name, digest) in found {
            self.replace((db, name), Seen { shard, version, digest: Some(digest) });
        }
    }

    fn replace(&self, name: Name, new: Seen) {
        let mut keys = self.keys.lock().expect("no panic");
        if keys.get(&name).is_none_or(|old| old.version <= new.version) {
            keys.insert(name, new);
        }
    }
}

impl ChangeObserver for Shadow {
    fn observe(&self, changes: &[ChangeNote]) {
        let Some(engine) = self.engine.upgrade() else { return };
        for ChangeNote { shard, db, extent, .. } in changes {
            match extent {
                Extent::Key { name, .. } => self.refresh(&engine, *shard, *db, name),
                Extent::Emptied | Extent::Replaced | Extent::Swapped(_) => self.walk(&engine, *shard, *db),
            }
        }
    }
}

/// Returns a number for a key's expiry and value, whatever the value's encoding.
fn digest(entry: &KeyEntry) -> u64 {
    let mut digits = itoa::Buffer::new();
    let mut hasher = DefaultHasher::new();
    let (value, mut parts) = (entry.value(), Vec::new());
    (entry.expiry(), value.value_type().number).hash(&mut hasher);
    match &value {
        Value::Payload(Object::List(list)) => {
            list.each(0..list.len(), false, |item| parts.push(item.bytes(&mut digits).to_vec()));
        }
        Value::Payload(Object::Set(set)) => {
            parts.extend(set.iter().map(|item| item.bytes(&mut digits).to_vec()));
            parts.sort();
        }
        Value::Payload(Object::Hash(hash)) => parts = fields(hash.view()),
        Value::Packed(bytes) => parts = fields(View::packed(bytes)),
        Value::Payload(Object::SortedSet(set)) => {
            parts.extend(set.range(0..set.len()).map(|(name, score)| [name, &score.to_bits().to_le_bytes()].concat()));
        }
        Value::Payload(Object::Stream(stream)) => parts = stream_parts(stream),
        _ => parts.push(value.as_string().map(Str::to_vec).unwrap_or_default()),
    }
    parts.hash(&mut hasher);
    hasher.finish()
}

/// Returns the fields of a hash with their values and expiries, in order.
fn fields(view: View<'_>) -> Vec<Vec<u8>> {
    let mut fields = Vec::new();
    view.visit_all(|field, value, expiry| {
        let bytes = [field, value].map(|item| item.bytes(&mut itoa::Buffer::new()).to_vec());
        fields.push(format!("{bytes:?} {expiry:?}").into_bytes());
    });
    fields.sort();
    fields
}

/// Returns the entries and groups of a stream. Times at which consumers were seen are left out: a read changes them,
/// and is no change of the key.
fn stream_parts(stream: &Stream) -> Vec<Vec<u8>> {
    let mut parts = vec![format!("{:?} {:?} {}", stream.last_id, stream.max_deleted_id, stream.entries_added)];
    let mut cursor = stream.range(Id::MIN, Id::MAX);
    while let Some(id) = cursor.next() {
        parts.push(format!("{id:?}"));
        while let Some((name, value)) = cursor.field() {
            let [name, value] = [name, value].map(|item| item.bytes(&mut itoa::Buffer::new()).to_vec());
            parts.push(format!("{name:?} {value:?}"));
        }
    }
    for (name, group) in stream.groups() {
        parts.push(format!("{name:?} {:?} {:?}", group.last_id, group.entries_read));
        parts.extend(group.pending_range(Id::MIN, Id::MAX).map(|pending| format!("{pending:?}")));
        parts.extend(group.consumers().map(|(consumer, at)| format!("{:?} {at:?}", consumer.name)));
    }
    parts.into_iter().map(String::into_bytes).collect()
}
