//! Places on a sphere as numbers that sort by nearness.
//!
//! A longitude and a latitude are cut into 2^26 steps each, and the bits of both are interleaved into 52, which a
//! double holds exactly: the score of a member in a sorted set. Places that are near each other mostly share the
//! leading bits, so an area is a range of scores:
//!
//! ```text
//!   step 1          step 2
//!   +----+----+     a cell of `step` bits a side is the range of scores
//!   | 01 | 11 |     [cell << shift, (cell + 1) << shift),  shift = 52 - 2 * step
//!   +----+----+
//!   | 00 | 10 |     (left bit: east half, right bit: north half)
//!   +----+----+
//! ```
//!
//! A search takes the cell around its center and the eight beside it, at the finest step at which these cover the
//! shape. The limits, the earth's radius and the estimate of the step are those of Redis, so that scores and answers
//! are the same.

use std::ops::Range;

/// The latitudes that Web Mercator (EPSG:3857) can show, in degrees.
pub const LATITUDE_MAX: f64 = 85.051_128_78;
/// Greatest longitude, in degrees.
pub const LONGITUDE_MAX: f64 = 180.0;
/// Radius of the earth in meters, for the haversine formula.
const EARTH: f64 = 6_372_797.560_856;
/// Half of the equator in Web Mercator's meters.
const MERCATOR_MAX: f64 = 20_037_726.37;
/// Bits of each coordinate in a score.
const STEPS: u32 = 26;

/// A place, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Degrees to the east.
    pub longitude: f64,
    /// Degrees to the north.
    pub latitude: f64,
}

impl Point {
    /// Makes a place; None when it is beyond the limits.
    pub fn new(longitude: f64, latitude: f64) -> Option<Point> {
        let legal = longitude.abs() <= LONGITUDE_MAX && latitude.abs() <= LATITUDE_MAX;
        legal.then_some(Point { longitude, latitude })
    }

    /// Returns the 52 bits.
    pub fn encode(self) -> u64 {
        Cell::around(self, STEPS).bits
    }

    /// Returns the middle of the cell that a score names.
    pub fn decode(score: f64) -> Point {
        let area = Cell { bits: score as u64, step: STEPS }.area();
        let middle = |low: f64, high: f64, limit: f64| ((low + high) / 2.0).clamp(-limit, limit);
        Point {
            longitude: middle(area.west, area.east, LONGITUDE_MAX),
            latitude: middle(area.south, area.north, LATITUDE_MAX),
        }
    }

    /// Returns the great-circle distance in meters.
    pub fn distance(self, other: Point) -> f64 {
        let v = ((other.longitude.to_radians() - self.longitude.to_radians()) / 2.0).sin();
        if v == 0.0 {
            return self.latitude_distance(other);
        }
        let (from, to) = (self.latitude.to_radians(), other.latitude.to_radians());
        let u = ((to - from) / 2.0).sin();
        let a = u * u + from.cos() * to.cos() * v * v;
        2.0 * EARTH * a.sqrt().asin()
    }

    fn latitude_distance(self, other: Point) -> f64 {
        EARTH * (other.latitude.to_radians() - self.latitude.to_radians()).abs()
    }

    /// Returns the eleven letters of geohash.org. Only ten of them are known: 52 bits are two and a half short of
    /// eleven.
    pub fn letters(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        // That site's latitudes go up to the poles.
        let bits = interleave(steps_of(self.latitude, 90.0, STEPS), steps_of(self.longitude, 180.0, STEPS));
        std::array::from_fn(|at| match at {
            10 => ALPHABET[0],
            _ => ALPHABET[(bits >> (52 - (at + 1) * 5) & 31) as usize],
        })
    }
}

/// Returns radians in degrees, rounded as other servers round them: `STOREDIST` at a replica stores the same bits.
fn degrees(radians: f64) -> f64 {
    radians / 1f64.to_radians()
}

/// Returns the step, of 2^step equal ones from -limit to limit, in which a coordinate lies.
fn steps_of(coordinate: f64, limit: f64, step: u32) -> u32 {
    let share = (coordinate + limit) / (2.0 * limit);
    (share * f64::from(1u32 << step)) as u32
}

/// Interleaves bits: the first number's are in even places, the second's in odd ones.
fn interleave(even: u32, odd: u32) -> u64 {
    spread(even) | spread(odd) << 1
}

fn spread(value: u32) -> u64 {
    const MASKS: [u64; 5] = [
        0x0000_ffff_0000_ffff,
        0x00ff_00ff_00ff_00ff,
        0x0f0f_0f0f_0f0f_0f0f,
        0x3333_3333_3333_3333,
        0x5555_5555_5555_5555,
    ];
    MASKS.iter().zip([16, 8, 4, 2, 1]).fold(u64::from(value), |bits, (mask, shift)| (bits | bits << shift) & mask)
}

/// Returns every second bit, from the lowest on.
fn gather(bits: u64) -> u32 {
    const MASKS: [u64; 6] = [
        0x5555_5555_5555_5555,
        0x3333_3333_3333_3333,
        0x0f0f_0f0f_0f0f_0f0f,
        0x00ff_00ff_00ff_00ff,
        0x0000_ffff_0000_ffff,
        0x0000_0000_ffff_ffff,
    ];
    MASKS.iter().zip([0, 1, 2, 4, 8, 16]).fold(bits, |bits, (mask, shift)| (bits | bits >> shift) & mask) as u32
}

/// One of 4^step cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    bits: u64,
    step: u32,
}

/// A rectangle in degrees.
#[derive(Clone, Copy, Debug)]
struct Area {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Cell {
    fn around(place: Point, step: u32) -> Cell {
        let (x, y) = (steps_of(place.longitude, LONGITUDE_MAX, step), steps_of(place.latitude, LATITUDE_MAX, step));
        Cell { bits: interleave(y, x), step }
    }

    fn area(self) -> Area {
        let (x, y) = (gather(self.bits >> 1), gather(self.bits));
        let edge = |at: f64, limit: f64| -limit + at / f64::from(1u32 << self.step) * (2.0 * limit);
        Area {
            west: edge(f64::from(x), LONGITUDE_MAX),
            east: edge(f64::from(x) + 1.0, LONGITUDE_MAX),
            south: edge(f64::from(y), LATITUDE_MAX),
            north: edge(f64::from(y) + 1.0, LATITUDE_MAX),
        }
    }

    /// Returns the cell so many columns to the east and rows to the north, around the world in either direction. At the
    /// limits a place is in the column or row behind the last one, and only moving leaves that.
    fn beside(self, east: i32, north: i32) -> Cell {
        let mask = (1u32 << self.step) - 1;
        let moved = |at: u32, by: i32| if by == 0 { at } else { at.wrapping_add_signed(by) & mask };
        let (x, y) = (moved(gather(self.bits >> 1), east), moved(gather(self.bits), north));
        Cell { bits: interleave(y, x), step: self.step }
    }

    /// Returns the scores of the places in it; the end is not one of them.
    pub fn scores(self) -> Range<f64> {
        let shift = 52 - 2 * self.step;
        (self.bits << shift) as f64..((self.bits + 1) << shift) as f64
    }
}

/// The area of a search, in meters.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// All within `radius` of the center.
    Circle {
        /// The middle.
        center: Point,
        /// In meters.
        radius: f64,
    },
    /// All within half of the width to the east and west, and half of the height to the north and south.
    Box {
        /// The middle.
        center: Point,
        /// From west to east, in meters.
        width: f64,
        /// From south to north, in meters.
        height: f64,
    },
    /// All within at least three corners.
    Polygon {
        /// The mean of the corners, from which distances are measured.
        center: Point,
        /// In the order in which they are joined; the last one with the first.
        corners: Vec<Point>,
    },
}

impl Shape {
    /// Makes a polygon around the mean of its corners, taken as points in space.
    pub fn polygon(corners: Vec<Point>) -> Shape {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for corner in &corners {
            let (longitude, latitude) = (corner.longitude.to_radians(), corner.latitude.to_radians());
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        let center = Point { longitude: degrees(y.atan2(x)), latitude: degrees(z.atan2((x * x + y * y).sqrt())) };
        Shape::Polygon { center, corners }
    }

    fn center(&self) -> Point {
        match self {
            Shape::Circle { center, .. } | Shape::Box { center, .. } | Shape::Polygon { center, .. } => *center,
        }
    }

    /// Returns the distance from the center in meters, if the place is inside.
    pub fn distance_inside(&self, place: Point) -> Option<f64> {
        match self {
            Shape::Circle { center, radius } => Some(center.distance(place)).filter(|distance| distance <= radius),
            Shape::Box { center, width, height } => {
                let inside = place.latitude_distance(*center) <= height / 2.0 && {
                    let level = Point { longitude: center.longitude, latitude: place.latitude };
                    place.distance(level) <= width / 2.0
                };
                inside.then(|| center.distance(place))
            }
            Shape::Polygon { center, corners } => surrounds(corners, place).then(|| center.distance(place)),
        }
    }

    /// Returns the rectangle that the shape lies in.
    fn bounds(&self) -> Area {
        let (center, width, height) = match self {
            Shape::Circle { center, radius } => (center, *radius, *radius),
            Shape::Box { center, width, height } => (center, width / 2.0, height / 2.0),
            Shape::Polygon { corners, .. } => {
                let fold = |pick: fn(&Point) -> f64, choose: fn(f64, f64) -> f64| {
                    corners.iter().map(pick).reduce(choose).unwrap_or_default()
                };
                return Area {
                    west: fold(|corner| corner.longitude, f64::min),
                    east: fold(|corner| corner.longitude, f64::max),
                    south: fold(|corner| corner.latitude, f64::min),
                    north: fold(|corner| corner.latitude, f64::max),
                };
            }
        };
        let rows = degrees(height / EARTH);
        // Towards the pole a degree of longitude is shorter, so the edge nearer to it spans more of them.
        let edge = if center.latitude < 0.0 { center.latitude - rows } else { center.latitude + rows };
        let columns = degrees(width / EARTH / edge.to_radians().cos());
        Area {
            west: center.longitude - columns,
            east: center.longitude + columns,
            south: center.latitude - rows,
            north: center.latitude + rows,
        }
    }

    /// Returns the radius of a circle around the center that covers the shape; of a polygon, the rectangle that it lies
    /// in.
    fn radius(&self) -> f64 {
        match self {
            Shape::Circle { radius, .. } => *radius,
            Shape::Box { width, height, .. } => (width / 2.0 * (width / 2.0) + height / 2.0 * (height / 2.0)).sqrt(),
            Shape::Polygon { center, .. } => {
                let Area { west, east, south, north } = self.bounds();
                let corners = [(west, north), (east, north), (west, south), (east, south)];
                let corners = corners.map(|(longitude, latitude)| Point { longitude, latitude });
                corners.iter().map(|corner| center.distance(*corner)).fold(0.0, f64::max)
            }
        }
    }

    /// Returns the cells that together cover the shape, in the order in which they are searched.
    pub fn cells(&self) -> Vec<Cell> {
        let (center, bounds) = (self.center(), self.bounds());
        let mut step = finest_step(self.radius(), center.latitude);
        let mut cell = Cell::around(center, step);
        let covers = |cell: Cell| {
            cell.beside(0, 1).area().north >= bounds.north
                && cell.beside(0, -1).area().south <= bounds.south
                && cell.beside(1, 0).area().east >= bounds.east
                && cell.beside(-1, 0).area().west <= bounds.west
        };
        if step > 1 && !covers(cell) {
            step -= 1;
            cell = Cell::around(center, step);
        }
        const AROUND: [(i32, i32); 9] = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let area = cell.area();
        // At the coarsest step the cells beside a cell are on the other side of the world as well.
        let needed = |(east, north): &(i32, i32)| {
            step < 2
                || !((*north < 0 && area.south < bounds.south)
                    || (*north > 0 && area.north > bounds.north)
                    || (*east < 0 && area.west < bounds.west)
                    || (*east > 0 && area.east > bounds.east))
        };
        let mut cells: Vec<Cell> = Vec::new();
        for (east, north) in AROUND.into_iter().filter(needed) {
            let beside = cell.beside(east, north);
            // Around the world two of them may be one. The center is looked at anew, as it is by other servers.
            if cells.len() < 2 || cells.last() != Some(&beside) {
                cells.push(beside);
            }
        }
        cells
    }
}

/// Returns the step at which a cell is about as large as a circle.
fn finest_step(radius: f64, latitude: f64) -> u32 {
    if radius == 0.0 {
        return STEPS;
    }
    let (mut range, mut step) = (radius, 1i32);
    while range < MERCATOR_MAX {
        range *= 2.0;
        step += 1;
    }
    // Two less, so that the cells around cover the circle in most cases; fewer near the poles, where cells are narrow.
    step -= 2 + i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    step.clamp(1, STEPS as i32) as u32
}

/// Whether a ray from the place crosses the polygon's edges an odd number of times.
fn surrounds(corners: &[Point], place: Point) -> bool {
    let (x, y) = (place.longitude, place.latitude);
    let ends = corners.iter().cycle().skip(corners.len().saturating_sub(1));
    corners.iter().zip(ends).fold(false, |inside, (a, b)| {
        let crosses = (a.latitude > y) != (b.latitude > y)
            && x < (b.longitude - a.longitude) * (y - a.latitude) / (b.latitude - a.latitude) + a.longitude;
        inside != crosses
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place() -> impl Strategy<Value = Point> {
        (-180.0..180.0, -85.05..85.05).prop_map(|(longitude, latitude)| Point { longitude, latitude })
    }

    proptest! {
        #[test]
        fn decoding_is_near(place in place()) {
            let back = Point::decode(place.encode() as f64);
            prop_assert!(place.distance(back) < 1.0);
            prop_assert_eq!(back.encode(), place.encode());
        }

        #[test]
        fn bits_spread_and_gather(even in 0u32..1 << 26, odd in 0u32..1 << 26) {
            let bits = interleave(even, odd);
            prop_assert_eq!((gather(bits), gather(bits >> 1)), (even, odd));
        }

        #[test]
        fn cells_cover_circles(center in place(), radius in 1.0f64..2_000_000.0, angle in 0.0f64..6.3, part in 0.0f64..1.0) {
            // Beyond these latitudes a circle goes over the pole, which the cells do not.
            prop_assume!(center.latitude.abs() < 60.0 && center.longitude.abs() < 140.0);
            let reach = radius * part / EARTH;
            let other = Point {
                longitude: center.longitude + (reach * angle.cos() / center.latitude.to_radians().cos()).to_degrees() * 0.9,
                latitude: center.latitude + (reach * angle.sin()).to_degrees() * 0.9,
            };
            let shape = Shape::Circle { center, radius };
            if shape.distance_inside(other).is_some() && other.latitude.abs() < LATITUDE_MAX {
                let score = other.encode() as f64;
                prop_assert!(shape.cells().iter().any(|cell| cell.scores().contains(&score)), "{other:?}");
            }
        }
    }

    #[test]
    fn known_places() {
        let palermo = Point::new(13.361389, 38.115556).unwrap();
        let catania = Point::new(15.087269, 37.502669).unwrap();
        assert_eq!(palermo.encode(), 3_479_099_956_230_698);
        assert_eq!(&Point::decode(palermo.encode() as f64).letters(), b"sqc8b49rny0");
        let (a, b) = (Point::decode(palermo.encode() as f64), Point::decode(catania.encode() as f64));
        assert_eq!(format!("{:.4}", a.distance(b)), "166274.1516");
        assert!(Point::new(180.1, 0.0).is_none() && Point::new(0.0, 85.06).is_none());
        assert!(Point::new(-180.0, -LATITUDE_MAX).is_some());
    }

    #[test]
    fn half_the_world_is_half_a_circle() {
        let (here, there) = (Point { longitude: 0.0, latitude: 0.0 }, Point { longitude: 180.0, latitude: 0.0 });
        assert!((here.distance(there) - std::f64::consts::PI * EARTH).abs() < 1e-6);
    }

    #[test]
    fn polygons_surround() {
        let corner = |longitude, latitude| Point { longitude, latitude };
        let shape = Shape::polygon(vec![corner(0.0, 0.0), corner(10.0, 0.0), corner(10.0, 10.0), corner(0.0, 10.0)]);
        assert!(shape.distance_inside(corner(5.0, 5.0)).is_some());
        assert!(shape.distance_inside(corner(11.0, 5.0)).is_none());
        assert!(shape.distance_inside(corner(-1.0, 5.0)).is_none());
    }

    #[test]
    fn distances_from_the_middle_of_a_polygon_have_the_bits_of_other_servers() {
        // Members, triangles, and the scores that a real server stores for them with STOREDIST.
        let known = [
            (
                (-29.213, -27.672),
                [(-30.1978, -28.2645), (-28.2339, -27.6034), (-29.2888, -26.8715)],
                10306.222552745752,
            ),
            ((-107.127, 14.087), [(-107.1508, 14.0142), (-107.1459, 14.167), (-107.0322, 14.1151)], 2285.560574750194),
            ((46.009, -22.721), [(46.0838, -22.6769), (45.9527, -22.6591), (46.0439, -22.7711)], 2761.096302251866),
            ((-18.562, 55.091), [(-17.797, 54.9332), (-17.7467, 54.2304), (-18.9759, 55.4606)], 34734.20591793674),
            ((75.795, 24.751), [(72.1248, 39.2211), (82.0573, 4.8957), (75.8612, 12.8509)], 659035.7224301615),
            ((-56.84, 20.676), [(-46.9382, 7.3704), (-45.4451, 18.4407), (-68.6281, 30.6191)], 433632.57607804117),
        ];
        let point = |(longitude, latitude)| Point { longitude, latitude };
        for (member, corners, stored) in known {
            let member = Point::decode(point(member).encode() as f64);
            let distance = Shape::polygon(corners.map(point).into()).distance_inside(member);
            assert_eq!(distance, Some(stored), "{member:?}");
        }
    }
}
