//! Places: members of sorted sets whose scores are geohashes. The arithmetic is in [`structures::geohash`], searching
//! in [`crate::geo::search`].

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use crate::sorted_sets::sorted_set::{AddOptions, add_scores};
use engine::{Error, Word};
use resp::{Protocol, Reply};
use smallvec::SmallVec;
use structures::geohash::Point;
use structures::sorted_set::SortedSet;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "geoadd",
        group: Group::Geo,
        since: "3.2.0",
        arity: -5,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).rw().update()],
        syntax: "key [condition: NX | XX]@6.2.0 [CH=change]@6.2.0 (data: longitude:double latitude:double member)...",
        summary: "Adds one or more members to a geospatial index. The key is created if it doesn't exist.",
        complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        history: &[("6.2.0", "Added the `CH`, `NX` and `XX` options.")],
        run: geoadd,
        ..Command::DEFAULT
    },
    Command {
        name: "geopos",
        group: Group::Geo,
        since: "3.2.0",
        arity: -2,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key [member]...",
        summary: "Returns the longitude and latitude of members from a geospatial index.",
        complexity: "O(1) for each member requested.",
        run: geopos,
        ..Command::DEFAULT
    },
    Command {
        name: "geohash",
        group: Group::Geo,
        since: "3.2.0",
        arity: -2,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key [member]...",
        summary: "Returns members from a geospatial index as geohash strings.",
        complexity: "O(1) for each member requested.",
        run: geohash,
        ..Command::DEFAULT
    },
    Command {
        name: "geodist",
        group: Group::Geo,
        since: "3.2.0",
        arity: -4,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key member1 member2 [unit: M | KM | FT | MI]",
        summary: "Returns the distance between two members of a geospatial index.",
        complexity: "O(1)",
        run: geodist,
        ..Command::DEFAULT
    },
];

/// Returns the meters of the unit at argument `index`.
pub(crate) fn unit(args: &Args<'_>, index: usize) -> Result<f64, Error> {
    const UNITS: [(&str, f64); 4] = [("M", 1.0), ("KM", 1000.0), ("FT", 0.3048), ("MI", 1609.34)];
    let known = UNITS.iter().find(|(name, _)| args.is(index, name));
    known.map(|(_, meters)| *meters).ok_or(Error::GeoUnit)
}

/// Returns the longitude at argument `index` and the latitude behind it.
pub(crate) fn point(args: &Args<'_>, index: usize) -> Result<Point, Error> {
    let coordinate = |index: usize| resp::number::parse_f64(&args[index]).ok_or(Error::NotAFloat);
    let (longitude, latitude) = (coordinate(index)?, coordinate(index + 1)?);
    Point::new(longitude, latitude)
        .ok_or_else(|| Error::GeoCoordinates(Word::of(format!("{longitude:.6},{latitude:.6}"))))
}

fn geoadd(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut options = AddOptions::default();
    let mut first = 2;
    while first < args.len() {
        if args.is(first, "NX") {
            options.nx = true;
        } else if args.is(first, "XX") {
            options.xx = true;
        } else if args.is(first, "CH") {
            options.ch = true;
        } else {
            break;
        }
        first += 1;
    }
    let points = args.len() - first;
    if points == 0 || !points.is_multiple_of(3) || (options.nx && options.xx) {
        return Err(Error::Syntax);
    }
    let starts = (first..args.len()).step_by(3);
    let scores = starts.clone().map(|index| point(args, index).map(|point| point.encode() as f64));
    let scores = scores.collect::<Result<SmallVec<[f64; 8]>, Error>>()?;
    add_scores(cx, args, options, &scores, starts.map(|index| index + 2))
}

fn geopos(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    cx.reply.array(args.len() - 2);
    for member in args.from(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => reply_point(cx.reply, Point::decode(score)),
            None => cx.reply.null_array(),
        }
    }
    Ok(())
}

/// Replies both coordinates, with all the digits that they have.
pub(crate) fn reply_point(reply: &mut Reply, point: Point) {
    reply.array(2);
    for coordinate in [point.longitude, point.latitude] {
        let text = format!("{coordinate:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = if text == "-0" { "0" } else { text };
        match reply.protocol() {
            Protocol::Resp3 => reply.raw(format!(",{text}\r\n").as_bytes()),
            _ => reply.bulk(text.as_bytes()),
        }
    }
}

fn geohash(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    cx.reply.array(args.len() - 2);
    for member in args.from(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => cx.reply.bulk(&Point::decode(score).letters()),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

fn geodist(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let meters = match args.len() {
        4 => 1.0,
        5 => unit(args, 4)?,
        _ => return Err(Error::Syntax),
    };
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    let point = |index: usize| set.and_then(|set| set.score(&args[index])).map(Point::decode);
    match (point(2), point(3)) {
        (Some(from), Some(to)) => reply_distance(cx.reply, from.distance(to) / meters),
        _ => cx.reply.null(),
    }
    Ok(())
}

pub(crate) fn reply_distance(reply: &mut Reply, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn places_are_members() {
        let mut client = Client::new();
        client.is("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2");
        client.is("ZSCORE g Palermo", "3479099956230698").is("TYPE g", "+zset");
        client.is("GEOADD g NX 1 1 Palermo", ":0").is("GEOADD g XX CH 13 38 Palermo 1 1 none", ":1");
        client.is("GEOADD g 13.361389 38.115556 Palermo", ":0");
        client.is("GEOPOS g Palermo none", "[[13.36138933897018433 38.11555639549629859] nil]");
        client.is("GEOHASH g Palermo none Catania", "[sqc8b49rny0 nil sqdtr74hyu0]").is("GEOPOS none a", "[nil]");
        client.is("GEODIST g Palermo Catania", "166274.1516").is("GEODIST g Palermo Catania MI", "103.3182");
        client.is("GEODIST g Palermo none", "nil").is("GEODIST none a b", "nil");
    }

    #[test]
    fn malformed_places_are_refused() {
        let mut client = Client::new();
        client.is("GEOADD g 200 1 x", "-ERR invalid longitude,latitude pair 200.000000,1.000000");
        client.is("GEOADD g a 1 x", "-ERR value is not a valid float").is("GEOADD g NX XX 1 1 a", "-ERR syntax error");
        client
            .is("GEOADD g 1 1 a 2", "-ERR syntax error")
            .is("GEOADD g ch CH CH", "-ERR syntax error")
            .is("EXISTS g", ":0");
        client.is("GEODIST g a b xx", "-ERR unsupported unit provided. please use M, KM, FT, MI");
        client.is("GEODIST g a b m c", "-ERR syntax error");
    }
}
