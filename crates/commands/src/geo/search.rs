//! Searching for points: GEOSEARCH, GEOSEARCHSTORE and the older GEORADIUS family.
//!
//! The cells that cover the shape are ranges of scores; every member in them is decoded and measured. All five forms
//! are one search with other words around it.

use crate::core::args::Args;
use crate::core::command::{CallKeys, Command, DENY_OOM, Group, KeyFlags, READONLY, WRITE, key, keyword};
use crate::core::context::Context;
use crate::core::yielding::Yielding;
use crate::geo::points::{point, reply_distance, reply_point, unit};
use crate::sorted_sets::sorted_set;
use engine::data::event_class::EventClass;
use engine::data::value::{Object, Value};
use engine::keyspace::edit::Ttl;
use engine::{Error, Word};
use resp::number::parse_f64;
use std::ops::Range;
use structures::geohash::{Point, Shape};
use structures::sorted_set::SortedSet;

const UPPERCASE: (&str, &str) = ("7.0.0", "Added support for uppercase unit names.");
const POLYGON: (&str, &str) = ("9.0.0", "Added support for the BYPOLYGON option.");
const ANY_ADDED: (&str, &str) = ("6.2.0", "Added the `ANY` option for `COUNT`.");
const RADIUS_COMPLEXITY: &str = "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.";
const SEARCH_COMPLEXITY: &str = "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape provided as the filter and M is the number of items inside the shape";

pub const COMMANDS: &[Command] = &[
    Command {
        name: "georadius",
        group: Group::Geo,
        since: "3.2.0",
        arity: -6,
        flags: WRITE.and(DENY_OOM),
        keys: &[
            key(1).ro().access(),
            keyword("STORE", 6).ow().update().variable(),
            keyword("STOREDIST", 6).ow().update().variable(),
        ],
        syntax: "key longitude:double latitude:double radius:double (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] [count-block: COUNT count:int [ANY]@6.2.0] [order: ASC | DESC] [store: STORE storekey:key=key | STOREDIST storedistkey:key=key]",
        summary: "Queries a geospatial index for members within a distance from a coordinate, optionally stores the result.",
        complexity: RADIUS_COMPLEXITY,
        history: &[ANY_ADDED, UPPERCASE],
        keys_of_call: Some(last_destination),
        run: georadius,
        ..Command::DEFAULT
    },
    Command {
        name: "georadius_ro",
        group: Group::Geo,
        since: "3.2.10",
        arity: -6,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key longitude:double latitude:double radius:double (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] [count-block: COUNT count:int [ANY]@6.2.0] [order: ASC | DESC]",
        summary: "Returns members from a geospatial index that are within a distance from a coordinate.",
        complexity: RADIUS_COMPLEXITY,
        history: &[ANY_ADDED, UPPERCASE],
        run: georadius_ro,
        ..Command::DEFAULT
    },
    Command {
        name: "georadiusbymember",
        group: Group::Geo,
        since: "3.2.0",
        arity: -5,
        flags: WRITE.and(DENY_OOM),
        keys: &[
            key(1).ro().access(),
            keyword("STORE", 5).ow().update().variable(),
            keyword("STOREDIST", 5).ow().update().variable(),
        ],
        syntax: "key member radius:double (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] [count-block: COUNT count:int [ANY]] [order: ASC | DESC] [store: STORE storekey:key=key | STOREDIST storedistkey:key=key]",
        summary: "Queries a geospatial index for members within a distance from a member, optionally stores the result.",
        complexity: RADIUS_COMPLEXITY,
        history: &[ANY_ADDED, UPPERCASE],
        keys_of_call: Some(last_destination),
        run: georadiusbymember,
        ..Command::DEFAULT
    },
    Command {
        name: "georadiusbymember_ro",
        group: Group::Geo,
        since: "3.2.10",
        arity: -5,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key member radius:double (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] [count-block: COUNT count:int [ANY]] [order: ASC | DESC]",
        summary: "Returns members from a geospatial index that are within a distance from a member.",
        complexity: RADIUS_COMPLEXITY,
        history: &[ANY_ADDED, UPPERCASE],
        run: georadiusbymember_ro,
        ..Command::DEFAULT
    },
    Command {
        name: "geosearch",
        group: Group::Geo,
        since: "6.2.0",
        arity: -7,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key [from: FROMMEMBER member | (FROMLONLAT fromlonlat: longitude:double latitude:double)] (by: (circle: BYRADIUS radius:double (unit: M | KM | FT | MI)) | (box: BYBOX width:double height:double (unit: M | KM | FT | MI)) | (polygon: BYPOLYGON num-vertices:int (vertices: longitude:double latitude:double)...)@9.0.0) [order: ASC | DESC] [count-block: COUNT count:int [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        summary: "Queries a geospatial index for members inside an area of a box, circle, or a polygon.",
        complexity: SEARCH_COMPLEXITY,
        history: &[UPPERCASE, POLYGON],
        run: geosearch,
        ..Command::DEFAULT
    },
    Command {
        name: "geosearchstore",
        group: Group::Geo,
        since: "6.2.0",
        arity: -8,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update(), key(2).ro().access()],
        syntax: "destination:key source:key [from: FROMMEMBER member | (FROMLONLAT fromlonlat: longitude:double latitude:double)] (by: (circle: BYRADIUS radius:double (unit: M | KM | FT | MI)) | (box: BYBOX width:double height:double (unit: M | KM | FT | MI)) | (polygon: BYPOLYGON num-vertices:int (vertices: longitude:double latitude:double)...)@9.0.0) [order: ASC | DESC] [count-block: COUNT count:int [ANY]] [STOREDIST]",
        summary: "Queries a geospatial index for members inside an area of a box, a circle, or a polygon, optionally stores the result.",
        complexity: SEARCH_COMPLEXITY,
        history: &[UPPERCASE, POLYGON],
        run: geosearchstore,
        ..Command::DEFAULT
    },
];

/// Makes the last of several destinations count, which no key specification can express.
fn last_destination(args: &Args<'_>, keys: &mut CallKeys) {
    let (mut at, mut found) = (5, None);
    while at + 1 < args.len() {
        if args.is(at, "STORE") || args.is(at, "STOREDIST") {
            at += 1;
            found = Some(at);
        }
        at += 1;
    }
    keys.retain(|(index, _)| *index == 1);
    keys.extend(found.map(|index| (index, KeyFlags(KeyFlags::OW.0 | KeyFlags::UPDATE.0))));
}

fn georadius(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    search(cx, args, Form { words: Words::Radius { may_store: true }, source: 1, options: 6 })
}

fn georadius_ro(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    search(cx, args, Form { words: Words::Radius { may_store: false }, source: 1, options: 6 })
}

fn georadiusbymember(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    search(cx, args, Form { words: Words::RadiusByMember { may_store: true }, source: 1, options: 5 })
}

fn georadiusbymember_ro(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    search(cx, args, Form { words: Words::RadiusByMember { may_store: false }, source: 1, options: 5 })
}

fn geosearch(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    search(cx, args, Form { words: Words::Search { store: None }, source: 1, options: 2 })
}

fn geosearchstore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    search(cx, args, Form { words: Words::Search { store: Some(1) }, source: 2, options: 3 })
}

/// The places of a command's arguments.
#[derive(Clone, Copy)]
struct Form {
    words: Words,
    source: usize,
    /// The first argument of the options.
    options: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    Radius { may_store: bool },
    RadiusByMember { may_store: bool },
    Search { store: Option<usize> },
}

/// The form of a search's center.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Member,
    Coordinates,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    AsFound,
    Ascending,
    Descending,
}

struct Query {
    center: Option<Point>,
    by: Option<By>,
    order: Order,
    count: Option<usize>,
    any: bool,
    with_distance: bool,
    with_hash: bool,
    with_place: bool,
    /// The argument that names the destination.
    store: Option<usize>,
    store_distance: bool,
}

/// A shape without its place, lengths in units of so many meters.
enum By {
    Radius { radius: f64, meters: f64 },
    Box { width: f64, height: f64, meters: f64 },
    Polygon(Vec<Point>),
}

impl By {
    fn meters(&self) -> f64 {
        match self {
            By::Radius { meters, .. } | By::Box { meters, .. } => *meters,
            By::Polygon(_) => 1.0,
        }
    }

    fn shape(&self, center: Option<Point>) -> Option<Shape> {
        Some(match self {
            By::Radius { radius, meters } => Shape::Circle { center: center?, radius: radius * meters },
            By::Box { width, height, meters } => {
                Shape::Box { center: center?, width: width * meters, height: height * meters }
            }
            By::Polygon(corners) => Shape::polygon(corners.clone()),
        })
    }
}

/// Returns a length at argument `index`, in the unit at `unit_at`.
fn length(args: &Args<'_>, index: usize, which: &'static str) -> Result<f64, Error> {
    parse_f64(&args[index]).ok_or(Error::GeoLengthNotAFloat(which))
}

fn radius(args: &Args<'_>, index: usize) -> Result<By, Error> {
    let radius = length(args, index, "radius")?;
    if radius < 0.0 {
        return Err(Error::GeoRadiusNegative);
    }
    Ok(By::Radius { radius, meters: unit(args, index + 1)? })
}

fn rectangle(args: &Args<'_>, index: usize) -> Result<By, Error> {
    let width = length(args, index, "width")?;
    let height = length(args, index + 1, "height")?;
    if width < 0.0 || height < 0.0 {
        return Err(Error::GeoBoxNegative);
    }
    Ok(By::Box { width, height, meters: unit(args, index + 2)? })
}

/// Returns the corners whose number stands at argument `index`, and the argument behind them.
fn polygon(args: &Args<'_>, index: usize) -> Result<(By, usize), Error> {
    let count = resp::number::parse_i64(&args[index]).and_then(|count| i32::try_from(count).ok());
    let count = count.ok_or(Error::GeoVertexCount)?;
    let end = usize::try_from(count).ok().and_then(|count| count.checked_mul(2)).map(|words| index + 1 + words);
    match end {
        Some(end) if count >= 3 && end <= args.len() => {
            let corners = (index + 1..end).step_by(2).map(|at| point(args, at)).collect::<Result<_, _>>()?;
            Ok((By::Polygon(corners), end))
        }
        _ => Err(Error::GeoTooFewVertices),
    }
}

impl Query {
    /// Reads the words of the command; `set` is the searched one, in which members are looked up.
    fn parse(args: &Args<'_>, form: Form, set: Option<&SortedSet>) -> Result<Query, Error> {
        let mut query = Query {
            center: None,
            by: None,
            order: Order::AsFound,
            count: None,
            any: false,
            with_distance: false,
            with_hash: false,
            with_place: false,
            store: None,
            store_distance: false,
        };
        match form.words {
            Words::Radius { .. } => {
                query.center = Some(point(args, 2)?);
                query.by = Some(radius(args, 4)?);
            }
            Words::RadiusByMember { .. } => {
                // Without the set the result is empty, whatever the radius.
                if let Some(set) = set {
                    query.center = Some(point_of(set, &args[2])?);
                    query.by = Some(radius(args, 3)?);
                }
            }
            Words::Search { store } => query.store = store,
        }
        let mut from = None;
        let mut index = form.options;
        while index < args.len() {
            index = match query.option(args, index)? {
                Some(next) => next,
                None if matches!(form.words, Words::Search { .. }) => {
                    query.search_option(args, index, set, &mut from)?
                }
                None => query.radius_option(args, index, form.words)?,
            };
        }
        query.check(args, form, from.is_some())?;
        Ok(query)
    }

    /// Reads an option that all forms have; None if the word is no such one.
    fn option(&mut self, args: &Args<'_>, index: usize) -> Result<Option<usize>, Error> {
        if args.is(index, "WITHDIST") {
            self.with_distance = true;
        } else if args.is(index, "WITHHASH") {
            self.with_hash = true;
        } else if args.is(index, "WITHCOORD") {
            self.with_place = true;
        } else if args.is(index, "ANY") {
            self.any = true;
        } else if args.is(index, "ASC") {
            self.order = Order::Ascending;
        } else if args.is(index, "DESC") {
            self.order = Order::Descending;
        } else if args.is(index, "COUNT") && index + 1 < args.len() {
            let count = args.int(index + 1)?;
            if count <= 0 {
                return Err(Error::CountMustBeAboveZero);
            }
            self.count = Some(usize::try_from(count).unwrap_or(usize::MAX));
            return Ok(Some(index + 2));
        } else {
            return Ok(None);
        }
        Ok(Some(index + 1))
    }

    fn radius_option(&mut self, args: &Args<'_>, index: usize, words: Words) -> Result<usize, Error> {
        let may_store = matches!(words, Words::Radius { may_store: true } | Words::RadiusByMember { may_store: true });
        let store_distance = args.is(index, "STOREDIST");
        if !may_store || index + 1 >= args.len() || !(store_distance || args.is(index, "STORE")) {
            return Err(Error::Syntax);
        }
        (self.store, self.store_distance) = (Some(index + 1), store_distance);
        Ok(index + 2)
    }

    fn search_option(
        &mut self,
        args: &Args<'_>,
        index: usize,
        set: Option<&SortedSet>,
        from: &mut Option<From>,
    ) -> Result<usize, Error> {
        let left = args.len() - index - 1;
        // Each may be repeated, but two different ones may not be combined.
        let by_polygon = matches!(self.by, Some(By::Polygon(_)));
        let may_say_from = |other: From| *from != Some(other) && !by_polygon;
        if args.is(index, "STOREDIST") && self.store.is_some() {
            self.store_distance = true;
            Ok(index + 1)
        } else if args.is(index, "FROMMEMBER") && left >= 1 && may_say_from(From::Coordinates) {
            *from = Some(From::Member);
            self.center = set.map(|set| point_of(set, &args[index + 1])).transpose()?;
            Ok(index + 2)
        } else if args.is(index, "FROMLONLAT") && left >= 2 && may_say_from(From::Member) {
            *from = Some(From::Coordinates);
            self.center = Some(point(args, index + 1)?);
            Ok(index + 3)
        } else if args.is(index, "BYRADIUS") && left >= 2 && matches!(self.by, None | Some(By::Radius { .. })) {
            self.by = Some(radius(args, index + 1)?);
            Ok(index + 3)
        } else if args.is(index, "BYBOX") && left >= 3 && matches!(self.by, None | Some(By::Box { .. })) {
            self.by = Some(rectangle(args, index + 1)?);
            Ok(index + 4)
        } else if args.is(index, "BYPOLYGON") && left >= 1 && self.by.is_none() && from.is_none() {
            let (by, next) = polygon(args, index + 1)?;
            self.by = Some(by);
            Ok(next)
        } else {
            Err(Error::Syntax)
        }
    }

    fn check(&self, args: &Args<'_>, form: Form, from_given: bool) -> Result<(), Error> {
        let is_search = matches!(form.words, Words::Search { .. });
        if self.store.is_some() && (self.with_distance || self.with_hash || self.with_place) {
            return Err(if is_search { Error::GeosearchstoreWith } else { Error::GeoradiusStoreWith });
        }
        let command = || Word::up_to_nul(&args[0]);
        if is_search && !from_given && !matches!(self.by, Some(By::Polygon(_))) {
            return Err(Error::GeoNoCenter(command()));
        }
        if is_search && self.by.is_none() {
            return Err(Error::GeoNoShape(command()));
        }
        if self.any && self.count.is_none() {
            return Err(Error::GeoAnyWithoutCount);
        }
        Ok(())
    }
}

fn point_of(set: &SortedSet, member: &[u8]) -> Result<Point, Error> {
    set.score(member).map(Point::decode).ok_or_else(|| Error::GeoMemberMissing(Word::up_to_nul(member)))
}

/// A member that was found.
struct Found {
    member: Vec<u8>,
    score: f64,
    point: Point,
    /// Distance in meters.
    distance: f64,
}

fn search(cx: &mut Context<'_>, args: &Args<'_>, form: Form) -> Result<(), Error> {
    let set = cx.keys.collection::<SortedSet>(cx.key(args, form.source))?;
    let mut query = Query::parse(args, form, set)?;
    if query.count.is_some() && query.order == Order::AsFound && !query.any {
        // The nearest members are wanted.
        query.order = Order::Ascending;
    }
    let shape = query.by.as_ref().and_then(|by| by.shape(query.center));
    let parts = set.zip(shape.as_ref()).map_or(Vec::new(), |(set, shape)| parts(set, shape));
    let (enough, members) = (query.count.filter(|_| query.any), parts.iter().map(Range::len).sum());
    let yielding = cx.yielding(enough.map_or(members, |enough| members.min(enough.saturating_mul(LOOKED_AT))))?;
    let set = cx.keys.together(cx.key(args, form.source));
    let found = match (set, shape) {
        (Some(Value::Payload(Object::SortedSet(set))), Some(shape)) => {
            chosen(&query, find(set, &parts, &shape, enough, &yielding), &yielding)
        }
        _ => Vec::new(),
    };
    let meters = query.by.as_ref().map_or(1.0, By::meters);
    match query.store {
        Some(destination) => {
            let event = if matches!(form.words, Words::Search { .. }) { "geosearchstore" } else { "georadiusstore" };
            store(cx, args, destination, event, &query, &Results { found: &found, meters, yielding: &yielding });
        }
        None => reply(cx, &query, &Results { found: &found, meters, yielding: &yielding }),
    }
    Ok(())
}

/// The results to reply or store.
struct Results<'f> {
    found: &'f [Found],
    /// Meters of the unit of distances.
    meters: f64,
    yielding: &'f Yielding<'f>,
}

/// Members that are looked at, usually at most, until one is found.
const LOOKED_AT: usize = 16;

/// Returns the ranks of the members that may be inside of a shape.
fn parts(set: &SortedSet, shape: &Shape) -> Vec<Range<usize>> {
    let ranks = |scores: Range<f64>| set.rank_of_score(scores.start)..set.rank_of_score(scores.end);
    shape.cells().into_iter().map(|cell| ranks(cell.scores())).collect()
}

/// Returns the members of these parts that are inside of a shape, at most `enough`.
fn find(
    set: &SortedSet,
    parts: &[Range<usize>],
    shape: &Shape,
    enough: Option<usize>,
    yielding: &Yielding<'_>,
) -> Vec<Found> {
    let mut found = Vec::new();
    for ranks in parts {
        for (member, score) in set.range(ranks.clone()) {
            yielding.step();
            let point = Point::decode(score);
            if let Some(distance) = shape.distance_inside(point) {
                found.push(Found { member: member.to_vec(), score, point, distance });
                if enough == Some(found.len()) {
                    return found;
                }
            }
        }
    }
    found
}

/// Returns the results in the requested order and number.
fn chosen(query: &Query, mut found: Vec<Found>, yielding: &Yielding<'_>) -> Vec<Found> {
    let order = |a: &Found, b: &Found| {
        yielding.step();
        a.distance.total_cmp(&b.distance)
    };
    match query.order {
        Order::AsFound => {}
        Order::Ascending => found.sort_by(order),
        Order::Descending => found.sort_by(|a, b| order(b, a)),
    }
    found.truncate(query.count.unwrap_or(usize::MAX));
    found
}

fn reply(cx: &mut Context<'_>, query: &Query, results: &Results<'_>) {
    let Results { found, meters, yielding } = results;
    let extras = [query.with_distance, query.with_hash, query.with_place].into_iter().filter(|with| *with).count();
    cx.reply.array(found.len());
    for one in *found {
        yielding.step();
        if extras > 0 {
            cx.reply.array(extras + 1);
        }
        cx.reply.bulk(&one.member);
        if query.with_distance {
            reply_distance(cx.reply, one.distance / meters);
        }
        if query.with_hash {
            cx.reply.int(one.score as i64);
        }
        if query.with_place {
            reply_point(cx.reply, one.point);
        }
    }
}

/// Puts the results in the place of the destination's value, with their geohashes or distances as scores.
fn store(
    cx: &mut Context<'_>,
    args: &Args<'_>,
    destination: usize,
    event: &'static str,
    query: &Query,
    results: &Results<'_>,
) {
    let Results { found, meters, yielding } = results;
    let limits = cx.engine.encoding_limits().sorted_set();
    let mut set = SortedSet::default();
    set.reserve(found.len(), found.iter().map(|one| one.member.len()).max().unwrap_or(0), limits);
    for one in *found {
        yielding.step();
        let score = if query.store_distance { one.distance / meters } else { one.score };
        set.insert(&one.member, score, limits);
    }
    let mut edit = cx.keys.edit_for_result(cx.key(args, destination), found.is_empty());
    if matches!(query.by, Some(By::Polygon(_))) {
        edit.log_as(|| sorted_set::logged_result(&args[destination], set.iter()));
    }
    if !found.is_empty() {
        edit.set_object(Object::SortedSet(set), Ttl::Clear);
        edit.commit_many(found.len() as u64, EventClass::SORTED_SET, event);
    } else if edit.remove() {
        edit.commit(EventClass::GENERIC, "del");
    }
    cx.reply.int(found.len() as i64);
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    fn sicily() -> Client {
        let mut client = Client::with_events();
        client.is("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 12.758489 38.788135 edge1", ":3");
        client
    }

    #[test]
    fn circles_boxes_and_polygons() {
        let mut client = sicily();
        client.is("GEORADIUS g 15 37 200 km ASC", "[Catania Palermo]").is("GEORADIUS none 15 37 200 km", "[]");
        client.is("GEORADIUS g 15 37 200 km WITHDIST COUNT 1", "[[Catania 56.4413]]");
        client.is("GEORADIUSBYMEMBER g Palermo 100 km DESC", "[edge1 Palermo]");
        client.is(
            "GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHDIST",
            "[[Catania 56.4413] [Palermo 190.4424] [edge1 279.7405]]",
        );
        client.is("GEOSEARCH g FROMMEMBER Palermo BYRADIUS 1 m WITHHASH", "[[Palermo :3479099956230698]]");
        client.is(
            "GEOSEARCH g BYPOLYGON 3 12 37 16 37 14 40 WITHDIST ASC",
            "[[Palermo 57112.6019] [Catania 111096.0599]]",
        );
        client.is("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km COUNT 1 ANY", "[Palermo]");
    }

    #[test]
    fn results_can_be_stored() {
        let mut client = sicily();
        client.events();
        client.is("GEORADIUS g 15 37 200 km STORE d", ":2").is("ZSCORE d Palermo", "3479099956230698");
        client
            .is("GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST", ":2")
            .is("ZRANGE d 0 -1", "[Catania Palermo]");
        client.is("GEOSEARCHSTORE d none FROMLONLAT 15 37 BYRADIUS 200 km", ":0").is("EXISTS d", ":0");
        assert_eq!(client.events(), ["0 new d", "0 georadiusstore d", "0 geosearchstore d", "0 del d"]);
    }

    #[test]
    fn wrong_words_have_the_errors_of_other_servers() {
        let mut client = sicily();
        for (line, error) in [
            ("GEORADIUS g 15 37 -1 km", "radius cannot be negative"),
            ("GEORADIUS g 15 37 x km", "need numeric radius"),
            ("GEORADIUS g 15 37 1 xx", "unsupported unit provided. please use M, KM, FT, MI"),
            ("GEORADIUSBYMEMBER g nope 1 km", "member nope does not exist"),
            (
                "GEORADIUS g 15 37 1 km STORE d WITHDIST",
                "STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            ),
            ("GEORADIUS_RO g 15 37 1 km STORE d", "syntax error"),
            ("GEORADIUS g 15 37 1 km ANY", "the ANY argument requires COUNT argument"),
            ("GEORADIUS g 15 37 1 km COUNT 0", "COUNT must be > 0"),
            ("GEOSEARCH g FROMMEMBER Palermo BYBOX 1 -1 km", "height or width cannot be negative"),
            ("GEOSEARCH g FROMMEMBER Palermo FROMLONLAT 1 1 BYBOX 1 1 km", "syntax error"),
            ("GEOSEARCH g BYBOX 1 1 km ASC", "exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH"),
            (
                "GEOSEARCH g FROMMEMBER Palermo ASC ASC ASC",
                "exactly one of BYRADIUS, BYBOX and BYPOLYGON can be specified for GEOSEARCH",
            ),
            ("GEOSEARCH none FROMMEMBER Palermo BYBOX x 1 km", "need numeric width"),
            ("GEOSEARCH g BYPOLYGON 2 1 1 2 2", "GEOSEARCH BYPOLYGON must have at least 3 vertices"),
            ("GEOSEARCH g BYPOLYGON 99999999999 12 37 16 37", "invalid number of vertices"),
        ] {
            client.is(line, &format!("-ERR {error}"));
        }
        client.is("GEORADIUSBYMEMBER none nope x km", "[]");
    }
}
