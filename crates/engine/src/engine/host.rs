//! All that the engine asks of its surroundings, as one trait.

use crate::clients::waiters::Delivery;
use crate::engine::Engine;
use crate::host::clock::Clock;
use crate::host::connections::Connections;
use crate::host::files::Files;
use crate::host::log::Log;
use crate::host::memory::Memory;
use crate::host::peers::Peers;
use crate::host::process::Process;
use crate::host::threads::Threads;
use crate::propagation::effects::EffectSink;

/// All that an engine asks of its surroundings; what implements these traits is a host.
pub trait Host:
    Clock + Memory + Files + Threads<Engine> + Peers + Process + Log + Connections + Delivery + EffectSink
{
}

impl<T> Host for T where
    T: Clock + Memory + Files + Threads<Engine> + Peers + Process + Log + Connections + Delivery + EffectSink
{
}

/// Leaves these parts of a [`Host`] to the bodies that they have by default.
#[macro_export]
macro_rules! host_defaults {
    ($host:ty: $($part:ident),+ $(,)?) => {
        $($crate::host_defaults!(@ $part $host);)+
    };
    (@ Clock $host:ty) => {
        impl $crate::host::clock::Clock for $host {}
    };
    (@ Memory $host:ty) => {
        impl $crate::host::memory::Memory for $host {}
    };
    (@ Files $host:ty) => {
        impl $crate::host::files::Files for $host {}
    };
    (@ Threads $host:ty) => {
        impl $crate::host::threads::Threads<$crate::Engine> for $host {}
    };
    (@ Peers $host:ty) => {
        impl $crate::host::peers::Peers for $host {}
    };
    (@ Process $host:ty) => {
        impl $crate::host::process::Process for $host {}
    };
    (@ Log $host:ty) => {
        impl $crate::host::log::Log for $host {}
    };
    (@ Connections $host:ty) => {
        impl $crate::host::connections::Connections for $host {}
    };
    (@ Delivery $host:ty) => {
        impl $crate::clients::waiters::Delivery for $host {}
    };
    (@ EffectSink $host:ty) => {
        impl $crate::propagation::effects::EffectSink for $host {}
    };
}

/// A host without threads and listeners: frees on the spot, notifies no thread.
#[derive(Debug, Default)]
pub struct NullHost;

host_defaults!(NullHost: Clock, Memory, Files, Threads, Peers, Process, Log, Connections, Delivery, EffectSink);
