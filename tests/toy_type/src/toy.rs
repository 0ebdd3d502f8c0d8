//! The structure, and its form in files: the number of items, then each item as a string.

use engine::data::event_class::EventClass;
use engine::data::typed_value::{Place, TypedValue};
use engine::data::value::Object;
use engine::data::value_type::{ElementWords, ModuleType, ValueType};
use rdb::module_value::{ModuleReader, ModuleWriter, id};
use rdb::source::Result;
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
    element_expiry: ElementWords::NONE,
    module: Some(ModuleType { module: "toy", module_version: 10, id: id("toy-items", ENCODING), read }),
    samples,
};

/// The version of the encoding.
const ENCODING: u16 = 1;

/// Items in their order. They can be [shared](TypedValue::share), so they have a lock of their own.
#[derive(Debug, Default)]
pub struct Toy(Arc<Items>);

/// Items that readers share.
pub type Items = RwLock<Vec<Vec<u8>>>;

impl Toy {
    /// Returns the items.
    pub fn items(&self) -> RwLockReadGuard<'_, Vec<Vec<u8>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the items to change them.
    pub fn items_mut(&mut self) -> RwLockWriteGuard<'_, Vec<Vec<u8>>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(items: Vec<Vec<u8>>) -> Toy {
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
        let (mut at, end) = (from.0 as usize, out.position().saturating_add(max));
        while at < items.len() {
            out.string(&items[at]);
            at += 1;
            if out.position() >= end {
                break;
            }
        }
        (at < items.len()).then_some(Place(at as u64))
    }

    fn copy(&self, each: &dyn Fn()) -> Box<dyn TypedValue> {
        let copied = self.items().iter().inspect(|_| each()).cloned().collect();
        Box::new(Toy::of(copied))
    }

    fn memory_usage(&self, _: usize) -> usize {
        let items = self.items();
        size_of::<Items>() + items.capacity() * size_of::<Vec<u8>>() + items.iter().map(Vec::capacity).sum::<usize>()
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

    fn share(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.0.clone())
    }
}

fn read(reader: &mut ModuleReader<'_, '_>) -> Result<Box<dyn TypedValue>> {
    if reader.version() > ENCODING {
        return reader.corrupt("a toy of a later version");
    }
    let mut items = Vec::new();
    for _ in 0..reader.unsigned()? {
        items.push(reader.string()?);
    }
    Ok(Box::new(Toy::of(items)))
}

fn samples() -> Vec<Object> {
    let of = |count: usize| (0..count).map(|n| format!("item {n}").into_bytes()).collect();
    let long = vec![vec![b'x'; 200_000]; 3];
    [of(1), of(20_000), long].map(|items| Object::Other(Box::new(Toy::of(items)))).into()
}
