//! The commands on toys.

use crate::toy::{Items, TOY, Toy};
use ::commands::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use ::commands::{Args, Context, Flow, Resumable};
use engine::Error;
use engine::data::typed_value::TypedValue;
use engine::data::value::Collection;
use engine::keyspace::edit::Ttl;
use std::sync::{Arc, PoisonError};

/// The entries.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "toy.set",
        group: Group::Type(&TOY),
        since: "0.1.0",
        arity: -3,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update()],
        syntax: "key item...",
        summary: "Sets a toy to these items, whatever the key held.",
        complexity: "O(N) where N is the number of items",
        run: set,
        ..Command::DEFAULT
    },
    Command {
        name: "toy.add",
        group: Group::Type(&TOY),
        since: "0.1.0",
        arity: 3,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().insert()],
        syntax: "key item",
        summary: "Appends an item to a toy.",
        complexity: "O(1)",
        run: add,
        ..Command::DEFAULT
    },
    Command {
        name: "toy.clear",
        group: Group::Type(&TOY),
        since: "0.1.0",
        arity: 2,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().delete()],
        syntax: "key",
        summary: "Removes all items, and the key with them.",
        complexity: "O(N) where N is the number of items",
        run: clear,
        ..Command::DEFAULT
    },
    Command {
        name: "toy.get",
        group: Group::Type(&TOY),
        since: "0.1.0",
        arity: 2,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key",
        summary: "Returns the items of a toy.",
        complexity: "O(N) where N is the number of items",
        run: get,
        ..Command::DEFAULT
    },
    Command {
        name: "toy.count",
        group: Group::Type(&TOY),
        since: "0.1.0",
        arity: 3,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key item",
        summary: "Counts the occurrences of an item.",
        complexity: "O(N) where N is the number of items",
        run: count,
        ..Command::DEFAULT
    },
];

fn set(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut toy = Toy::default();
    toy.items_mut().extend(args.from(2).map(Arc::from));
    let mut edit = cx.keys.edit(cx.key(args, 1));
    edit.set_object(toy.into_object(), Ttl::Clear);
    edit.commit(TOY.event_class, "toy.set");
    cx.reply.simple("OK");
    Ok(())
}

fn add(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let len = edit.with(|toy: &mut Toy| {
        toy.items_mut().push(args[2].into());
        toy.len()
    })?;
    edit.commit(TOY.event_class, "toy.add");
    cx.reply.int(len as i64);
    Ok(())
}

fn clear(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut edit = cx.keys.edit(cx.key(args, 1));
    if edit.collection::<Toy>()?.is_none() {
        cx.reply.int(0);
        return Ok(());
    }
    edit.with(|toy: &mut Toy| toy.items_mut().clear())?;
    edit.commit(TOY.event_class, "toy.clear");
    cx.reply.int(1);
    Ok(())
}

fn get(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    match cx.keys.collection::<Toy>(cx.key(args, 1))? {
        Some(toy) => {
            let items = toy.items();
            cx.reply.array(items.len());
            items.iter().for_each(|item| cx.reply.bulk(item));
        }
        None => cx.reply.null(),
    }
    Ok(())
}

fn count(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(toy) = cx.keys.collection::<Toy>(cx.key(args, 1))? else {
        cx.reply.int(0);
        return Ok(());
    };
    let Some(items) = toy.share().and_then(|shared| shared.downcast().ok()) else { return Err(Error::WrongType) };
    cx.flow = Flow::more(Count { items, item: args[2].to_vec(), at: 0, found: 0 });
    Ok(())
}

/// A count of the items of a shared toy, which holds no shard's lock.
struct Count {
    items: Arc<Items>,
    item: Vec<u8>,
    at: usize,
    found: i64,
}

/// Items that are compared in one step.
const STEP: usize = 4096;

impl Resumable for Count {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let items = self.items.read().unwrap_or_else(PoisonError::into_inner);
        let end = items.len().min(self.at + STEP);
        let here = items.get(self.at..end).unwrap_or_default();
        self.found += here.iter().filter(|item| ***item == *self.item).count() as i64;
        self.at = end;
        let is_last = end == items.len();
        if is_last {
            cx.reply.int(self.found);
        }
        is_last
    }
}
