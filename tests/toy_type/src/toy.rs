//! The structure, and its form in files: the number of items, then each item as a string.

use engine::data::event_class::EventClass;
use engine::data::typed_value::{Place, RestOfValue, TypedValue};
use engine::data::value::Object;
use engine::data::value_type::{ExpiryEvents, ModuleType, ValueType};
use rdb::module_value::{ModuleReader, ModuleWriter, id};
use rdb::rdb_reader::Result;
use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The type's line of the table.
pub static TOY: ValueType = ValueType {
    name: "toy",
    number: engine::data::value_type::MODULE_NUMBER,
    group: "toy",
    acl_category: "toy",
    event_class: EventClass::MODULE,
    sizes: Some("toys_items"),
    element_expiry: ExpiryEvents::NONE,
    module: Some(ModuleType { module: "toy", module_version: 10, id: id("toy-items", ENCODING), read }),
    samples,
};

/// The version of the encoding.
const ENCODING: u16 = 1;

/// Items in their order. They can be [shared](TypedValue::share), so they have a lock of their own.
#[derive(Debug, Default)]
pub struct Toy(Arc<Items>);

/// An item. Snapshots share it.
pub type Item = Arc<[u8]>;

/// Items that readers share.
pub type Items = RwLock<Vec<Item>>;

/// Items above which a snapshot takes the rest of a toy for itself when the toy changes.
const SWEPT: usize = 1000;

impl Toy {
    /// Returns the items.
    pub fn items(&self) -> RwLockReadGuard<'_, Vec<Item>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the items to change them.
    pub fn items_mut(&mut self) -> RwLockWriteGuard<'_, Vec<Item>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(items: Vec<Item>) -> Toy {
        Toy(Arc::new(RwLock::new(items)))
    }
}

impl TypedValue for Toy {
    fn value_type(&self) -> &'static ValueType {
        &TOY
    }

    fn len(&self) -> usize {
        self.items().len()
    }

    fn is_empty(&self) -> bool {
        self.items().is_empty()
    }

    fn encoding(&self) -> &'static str {
        "toyvec"
    }

    fn write(&self, out: &mut ModuleWriter<'_>, from: Place, max: usize) -> Option<Place> {
        let items = self.items();
        if from == Place::START {
            out.unsigned(items.len() as u64);
        }
        let at = from.0 as usize + put_some(&items[from.0 as usize..], out, max);
        (at < items.len()).then_some(Place(at as u64))
    }

    fn copy(&self, each: &dyn Fn()) -> Box<dyn TypedValue> {
        let copied = self.items().iter().inspect(|_| each()).cloned().collect();
        Box::new(Toy::of(copied))
    }

    fn memory_usage(&self, _: usize) -> usize {
        let items = self.items();
        size_of::<Items>()
            + items.capacity() * size_of::<Item>()
            + items.iter().map(|item| item.len() + 16).sum::<usize>()
    }

    fn free_effort(&self) -> usize {
        1 + self.len()
    }

    /// Items that a reader shares are left to the reader.
    fn drain_step(&mut self, max: usize) -> bool {
        let Some(items) = Arc::get_mut(&mut self.0) else { return true };
        let items = items.get_mut().unwrap_or_else(PoisonError::into_inner);
        items.truncate(items.len().saturating_sub(max));
        items.is_empty()
    }

    fn begin_sweep(&mut self, from: Place) -> Option<Box<dyn RestOfValue>> {
        let items = self.items();
        let rest = items.get(from.0 as usize..).filter(|_| items.len() > SWEPT)?;
        let len = (from == Place::START).then_some(items.len() as u64);
        Some(Box::new(SweptToy { len, items: rest.to_vec(), at: 0 }))
    }

    fn share(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.0.clone())
    }
}

/// Appends about `max` bytes of items, at least one; returns their number.
fn put_some(items: &[Item], out: &mut ModuleWriter<'_>, max: usize) -> usize {
    let end = out.position().saturating_add(max);
    let mut put = 0;
    for item in items {
        out.string(item);
        put += 1;
        if out.position() >= end {
            break;
        }
    }
    put
}

/// The part of a toy that a snapshot has not written, as it was.
struct SweptToy {
    /// The number of items, if it has not been written.
    len: Option<u64>,
    items: Vec<Item>,
    at: usize,
}

impl RestOfValue for SweptToy {
    fn write(&mut self, out: &mut ModuleWriter<'_>, max: usize) -> bool {
        if let Some(len) = self.len.take() {
            out.unsigned(len);
        }
        self.at += put_some(&self.items[self.at..], out, max);
        self.at == self.items.len()
    }
}

fn read(reader: &mut ModuleReader<'_, '_>) -> Result<Box<dyn TypedValue>> {
    if reader.version() > ENCODING {
        return reader.corrupt("a toy of a later version");
    }
    let mut items = Vec::new();
    for _ in 0..reader.unsigned()? {
        items.push(reader.string()?.into());
    }
    Ok(Box::new(Toy::of(items)))
}

fn samples() -> Vec<Object> {
    let of = |count: usize| (0..count).map(|n| format!("item {n}").into_bytes().into()).collect();
    let long = vec![vec![b'x'; 200_000].into(); 3];
    [of(1), of(20_000), long].map(|items| Object::Other(Box::new(Toy::of(items)))).into()
}
