//! LOLWUT: the version, and a random picture.
//!
//! Version 5 is Georg Nees' *Schotter* (1968): rows of squares that lose their order on the way down. It is drawn into
//! dots of the Braille alphabet, two by four to a character. Version 6 is a town at night, in colours of the terminal.

use crate::core::args::Args;
use crate::core::command::{Command, FAST, Group, READONLY};
use crate::core::context::Context;
use crate::version;
use engine::Error;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, SQRT_2};

pub const COMMANDS: &[Command] = &[Command {
    name: "lolwut",
    group: Group::Server,
    since: "5.0.0",
    arity: -1,
    flags: READONLY.and(FAST),
    categories: &["read"],
    syntax: "[VERSION version:int]",
    summary: "Displays computer art and the server version.",
    run: lolwut,
    ..Command::DEFAULT
}];

/// `LOLWUT [VERSION 5 [columns [squares in a row [rows]]] | VERSION 6 [columns [rows]]]`
fn lolwut(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (chosen, first) = match args.len() {
        3.. if args.is(1, "version") => (args.int(2)?, 3),
        _ => (0, args.len()),
    };
    let sizes = (first..args.len()).map(|index| args.int(index)).collect::<Result<Vec<_>, _>>()?;
    let size = |index: usize, usual: i64, most: i64| sizes.get(index).copied().unwrap_or(usual).clamp(1, most) as usize;
    let mut text = match chosen {
        5 => schotter(size(0, 66, 1000), size(1, 8, 200), size(2, 12, 200)),
        6 => town(size(0, 80, 1000), size(1, 20, 1000)),
        _ => String::new(),
    };
    text.push_str(&format!("Cinnabar ver. {}, as Valkey ver. {}\n", version::CINNABAR, version::VALKEY));
    cx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// Dots that are on or off.
struct Canvas {
    width: usize,
    height: usize,
    dots: Vec<bool>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Canvas {
        Canvas { width, height, dots: vec![false; width * height] }
    }

    fn set(&mut self, x: f64, y: f64) {
        let (x, y) = (x.round(), y.round());
        if x >= 0.0 && y >= 0.0 && x < self.width as f64 && y < self.height as f64 {
            self.dots[y as usize * self.width + x as usize] = true;
        }
    }

    fn line(&mut self, (from_x, from_y): (f64, f64), (to_x, to_y): (f64, f64)) {
        let steps = (to_x - from_x).abs().max((to_y - from_y).abs()).ceil().max(1.0);
        for step in 0..=steps as usize {
            let part = step as f64 / steps;
            self.set(from_x + (to_x - from_x) * part, from_y + (to_y - from_y) * part);
        }
    }

    fn square(&mut self, (x, y): (f64, f64), side: f64, angle: f64) {
        let corner = |n: usize| {
            let direction = angle + FRAC_PI_4 + n as f64 * FRAC_PI_2;
            (x + side / SQRT_2 * direction.sin(), y + side / SQRT_2 * direction.cos())
        };
        (0..4).for_each(|n| self.line(corner(n), corner(n + 1)));
    }

    /// Two by four dots a character; a dot's bit is where Unicode's Braille block has it.
    fn braille(&self) -> String {
        const BITS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let mut text = String::new();
        for top in (0..self.height).step_by(4) {
            for left in (0..self.width).step_by(2) {
                let mut bits = 0;
                for (down, row) in BITS.iter().enumerate() {
                    for (right, bit) in row.iter().enumerate() {
                        let (x, y) = (left + right, top + down);
                        let is_set = x < self.width && y < self.height && self.dots[y * self.width + x];
                        bits |= if is_set { *bit } else { 0 };
                    }
                }
                text.extend(char::from_u32(0x2800 + bits));
            }
            text.push('\n');
        }
        text
    }
}

/// Dots of a picture at most: squares as wide as the widest, in as many rows as were asked for, would take a gigabyte.
const DOTS_MAX: f64 = 4e6;

fn schotter(columns: usize, in_row: usize, rows: usize) -> String {
    let width = columns * 2;
    let margin = if width > 4 { 2 } else { 0 };
    let side = (width - 2 * margin) as f64 / in_row as f64;
    let rows = rows.min((DOTS_MAX / (width as f64 * side)) as usize);
    let mut canvas = Canvas::new(width, (side * rows as f64) as usize + 2 * margin);
    for row in 0..rows {
        // The first row stands straight.
        let disorder = if row > 1 { row as f64 / rows as f64 } else { 0.0 };
        let chance = |most: f64| (fastrand::f64() * 2.0 - 1.0) * most * disorder;
        for column in 0..in_row {
            let centre = |place: usize| place as f64 * side + side / 2.0 + margin as f64;
            let (x, y) = (centre(column) + chance(side / 3.0), centre(row) + chance(side / 3.0));
            canvas.square((x, y), side, chance(FRAC_PI_2));
        }
    }
    canvas.braille() + "\nAfter Georg Nees: Schotter, plotter drawing, 1968. "
}

/// Colours of the sky, the houses and the windows, as numbers of the terminal's background colours.
const SKY: [u8; 3] = [44, 104, 106];
const HOUSES: [u8; 3] = [40, 100, 47];
const LIT: u8 = 103;

fn town(columns: usize, rows: usize) -> String {
    let sky = |row: usize| SKY[row * SKY.len() / rows];
    let mut colours: Vec<Vec<u8>> = (0..rows).map(|row| vec![sky(row); columns]).collect();
    let houses = columns.div_ceil(6);
    for house in 0..houses * HOUSES.len() {
        // Dark houses stand in front, so they come last and are lower.
        let depth = HOUSES.len() - 1 - house / houses;
        let (left, width) = (fastrand::usize(0..columns), fastrand::usize(4..10));
        let height = fastrand::usize(0..=rows / 2) + rows * depth / 6;
        for (row, line) in colours.iter_mut().enumerate().skip(rows - height.min(rows)) {
            for (place, colour) in line.iter_mut().skip(left).take(width).enumerate() {
                let is_window = place % 2 == 1 && place + 1 < width && (rows - row).is_multiple_of(2) && depth < 2;
                *colour = if is_window && fastrand::u8(0..3) == 0 { LIT } else { HOUSES[depth] };
            }
        }
    }
    let mut text = String::new();
    for line in colours {
        line.iter().for_each(|colour| text.push_str(&format!("\x1b[{colour}m ")));
        text.push_str("\x1b[0m\n");
    }
    text + "\nA town at night. "
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn pictures_have_the_size_that_is_asked_for() {
        let mut client = Client::new();
        let plain = client.run("LOLWUT");
        assert!(plain.starts_with("Cinnabar ver. ") && plain.ends_with('\n'), "{plain}");
        assert_eq!(client.run("LOLWUT VERSION 4"), plain);
        let picture = client.run("LOLWUT VERSION 5 10 5 5");
        let lines: Vec<&str> = picture.lines().collect();
        assert!(lines[0].chars().count() == 10 && lines[0].chars().any(|dots| dots != '\u{2800}'), "{picture}");
        assert!(picture.ends_with(&plain) && lines.len() == 7, "{picture}");
        let town = client.run("LOLWUT VERSION 6 30 7");
        assert_eq!(town.lines().count(), 9, "{town}");
        assert_eq!(town.lines().next().unwrap().matches('\x1b').count(), 31);
        // Sizes are limited, and one of each is a picture too.
        assert!(client.run("LOLWUT VERSION 5 1 1000 1").len() > plain.len());
        assert!(client.run("LOLWUT VERSION 6 1 1").len() > plain.len());
        client.is("LOLWUT VERSION x", "-ERR value is not an integer or out of range");
        client.is("LOLWUT VERSION 5 x", "-ERR value is not an integer or out of range");
    }
}
